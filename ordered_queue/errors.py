"""Every error that this package raises on purpose.

    OrderedQueueError
    ├── InvalidRun              a row of a submission cannot become a flow run
    ├── DeploymentNotFound      no deployment has that name or id
    ├── DeploymentRefused       the deployment is set up so that its parked runs would come to harm
    ├── SubmissionIncomplete    only a prefix of a submission is parked for certain
    ├── InvalidSetting          a setting of this package has a bad value
    ├── ServerTooOld            the Prefect server lacks what the queue stands on
    └── RequestFailed           the Prefect API gave no usable answer

A rejected state transition is not an error here: it is a decision of the server
that the fill takes into account (``ordered_queue._steps.fill``).
"""

from __future__ import annotations

from collections.abc import Sequence


def parked_before(count: int) -> str:
    """What is parked of a submission that stopped at a bad row."""
    if count == 0:
        return "Nothing was parked."
    return "The run before it is parked." if count == 1 else f"The {count} runs before it are parked."


def parked_prefix(count: int, may_be_more: bool) -> str:
    """What is parked of a submission that could not be finished; a sentence that goes on."""
    if count == 0:
        return "No run is parked for certain" if may_be_more else "Nothing of it was sent"
    runs = f"first {'run is' if count == 1 else f'{count} runs are'} parked"
    return f"At least the {runs}" if may_be_more else f"The {runs}, nothing of the rest was sent"


LONGEST_TEXT = 500
"""More characters of what a caller sent are not quoted back: a bad parameter may be a megabyte long."""


def shortened(text: str) -> str:
    """The text, with its middle left out if it is long: what is said of a quoted value mostly stands behind it."""
    if len(text) <= LONGEST_TEXT:
        return text
    end = LONGEST_TEXT // 2
    return f"{text[: LONGEST_TEXT - end - 5]} ... {text[-end:]}"


class OrderedQueueError(Exception):
    """Base class of all errors that ordered_queue raises."""


RESUBMIT = "Correct the row and submit again with the same submission key."


class InvalidRun(OrderedQueueError, ValueError):
    """A row of a submission cannot become a flow run; nothing was sent for it.

    Attributes:
        position: 0-based place of the row in the submission.
        reason: what is wrong with it; long values in it are cut.
        parked_count: how many runs before it are parked (0 unless the submission
            came from a one-shot iterator, which is parked as it is read).
        advice: what to do about it; empty where the reason says so.
    """

    def __init__(self, position: int, reason: str, parked_count: int = 0, advice: str = RESUBMIT) -> None:
        self.position = position
        self.reason = shortened(reason)
        self.parked_count = parked_count
        self.advice = advice
        done = parked_before(parked_count)
        super().__init__(f"Run {position} of the submission is not valid: {self.reason} {done} {advice}".rstrip())


class DeploymentNotFound(OrderedQueueError, LookupError):
    """No deployment has the given name or id.

    Attributes:
        deployment: the name or id that was asked for.
        nearest: names of deployments that are spelled much like it.
    """

    def __init__(self, deployment: str, nearest: Sequence[str] = ()) -> None:
        self.deployment = deployment
        self.nearest = tuple(nearest)
        hint = (
            "Did you mean " + " or ".join(repr(name) for name in nearest) + "?"
            if nearest
            else "`prefect deployment ls` lists what there is; a name has the form 'flow/deployment'."
        )
        super().__init__(f"There is no deployment {deployment!r}. {hint}")


class DeploymentRefused(OrderedQueueError):
    """The deployment is set up so that parked runs would come to harm.

    Attributes:
        deployment: its name.
    """

    def __init__(self, deployment: str, reason: str) -> None:
        self.deployment = deployment
        super().__init__(f"Deployment {deployment!r} cannot be queued: {reason}")


class SubmissionIncomplete(OrderedQueueError):
    """A submission ended before its end: the server stopped answering, or the caller's own iterator did.

    Attributes:
        parked_count: how many runs are parked for certain, in order, from position 0.
        submission_key: submit the same runs with this key to park the rest; nothing is parked twice.
        cause: what the server answered last, or what became of the iterator.
        may_be_more: whether some of the rest may be parked as well: a server that stopped answering may have created
            what it was sent last. False: this call sent nothing of the rest.
    """

    def __init__(self, parked_count: int, submission_key: str, cause: str, *, may_be_more: bool = True) -> None:
        self.parked_count = parked_count
        self.submission_key = submission_key
        self.cause = cause
        self.may_be_more = may_be_more
        super().__init__(
            f"{parked_prefix(parked_count, may_be_more)}: {cause}. Submit the same runs again with "
            f"submission_key={submission_key!r}; nothing will be parked twice."
        )


class InvalidSetting(OrderedQueueError, ValueError):
    """A setting of this package has a bad value; the message names it, its environment variable and what is wrong."""


class ServerTooOld(OrderedQueueError):
    """The Prefect server lacks what the queue stands on.

    Attributes:
        version: the server's own version.
        needed: the oldest version that works.
    """

    def __init__(self, version: str, needed: str) -> None:
        self.version = version
        self.needed = needed
        super().__init__(
            f"The Prefect server is version {version}; ordered_queue needs {needed} or later. Upgrade the server."
        )


class RequestFailed(OrderedQueueError):
    """The Prefect API gave no usable answer, retries included.

    Attributes:
        what: the request, in words.
        status: HTTP status of the last answer; 0 if there was none.
        reason: what went wrong, without any credentials.
    """

    def __init__(self, what: str, status: int, reason: str) -> None:
        self.what = what
        self.status = status
        self.reason = reason
        super().__init__(f"{what} failed: {reason}")


def cause_of(error: Exception) -> str:
    """An error in the words of a log line."""
    return str(error).rstrip(".") or f"it took too long ({type(error).__name__})"
