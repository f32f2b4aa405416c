"""How the demo ends early: a signal or a failure becomes an exception, and the `with` blocks stop what was started.

One race has to be closed. (1) A process is being started. (2) The signal arrives and raises. (3) Nobody holds the
process yet, so nobody stops it. The same goes for a signal in the middle of stopping one. So while a function that must
finish is on the stack, the signal comes again a moment later.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, TypeVar

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LATER_SECONDS = 0.05

_must_finish: set[CodeType] = {subprocess.Popen.__init__.__code__}


class Stopped(KeyboardInterrupt):
    """A signal asked the demo to stop.

    Attributes:
        signal_number: which one.
    """

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number


class DemoFailed(Exception):
    """The demo could not run; the message says why, for people to read."""


def let_finish(function: AnyFunction) -> AnyFunction:
    """Have signals wait while this function runs."""
    _must_finish.add(function.__code__)
    return function


def stop_on_signals() -> None:
    """Raise `Stopped` at the first signal. Later ones are ignored, since stopping is under way."""
    arrived: list[int] = []

    def on_signal(signal_number: int, frame: FrameType | None) -> None:
        if signal_number != signal.SIGALRM:
            arrived.append(signal_number)
        if _is_finishing(frame):
            signal.setitimer(signal.ITIMER_REAL, LATER_SECONDS)
        elif arrived:
            _handle_signals(signal.SIG_IGN)
            raise Stopped(arrived[0])

    _handle_signals(on_signal)


def _handle_signals(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    for each in (*SIGNALS, signal.SIGALRM):
        signal.signal(each, handler)


def _is_finishing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code in _must_finish:
            return True
        frame = frame.f_back
    return False
