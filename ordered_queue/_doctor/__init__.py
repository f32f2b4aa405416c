"""What only `ordered-queue doctor` needs.

Read a queue (``look``) into an ``observation``, judge it (``diagnosis``, with ``_of_slots`` and ``_of_runs``) as
``findings``, and put right what is safe to put right (``remedies``). ``calls`` are the requests for it.
"""
