"""Steps that a test interferes with: between two requests, or by ending them as a crash would."""

from collections.abc import Callable

from ordered_queue._steps.effects import Send, Steps, T


class Crash(BaseException):
    """The process that ran the steps is gone."""


def with_interruption(steps: Steps[T], before_request: int, act: Callable[[], object]) -> Steps[T]:
    """The same steps; `act` is called right before their request number `before_request` (from 1) is sent."""

    def before(number: int, send: Send) -> None:
        if number == before_request:
            act()

    return watched(steps, before)


def crashing_after(steps: Steps[T], requests: int) -> Steps[T]:
    """The same steps, ended after their request number `requests` was answered. Whoever drives them meets `Crash`."""

    def before(number: int, send: Send) -> None:
        if number > requests:
            raise Crash

    return watched(steps, before)


def counting_requests(steps: Steps[T], seen: list[str]) -> Steps[T]:
    """The same steps; what each request was for is put into `seen`."""
    return watched(steps, lambda number, send: seen.append(send.call.what))


def watched(steps: Steps[T], before: Callable[[int, Send], object]) -> Steps[T]:
    """The same steps; `before` is called with each request and its number, from 1, before it is sent."""
    answer = None
    sent = 0
    while True:
        try:
            effect = next(steps) if answer is None else steps.send(answer)
        except StopIteration as stop:
            return stop.value
        if isinstance(effect, Send):
            sent += 1
            before(sent, effect)
        answer = yield effect
