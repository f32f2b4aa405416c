"""The flows of requests, each written once as a generator and driven by either of Prefect's clients.

A step yields what it wants done (`Send`, `Sleep`) and is sent an `Answer`. It does no I/O, knows no client, reads no
clock: the time comes with each answer. So a test may stop it after any request, which is what a crash does.
There is no request in a ``finally``.
"""
