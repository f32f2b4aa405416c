def tables(name, records):
    import pprint
    return pprint.pformat([(r.variant, r.case, r.figures) for r in records], width=150)
