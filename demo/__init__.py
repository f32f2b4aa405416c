"""The demo: two submitters, one queue, a limit of 2, and whether order held. Run it with `make demo`.

Everything that it starts lives in a folder of its own and ends with it.
"""
