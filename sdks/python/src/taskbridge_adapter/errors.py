"""The kinds of failure that taskbridge distinguishes, as exceptions. An adapter raises one of them; every other
exception is reported as `unavailable` or, from a first start, as `uncertain`. This module must not decide on retries:
the server does that by the kind."""

from __future__ import annotations

from typing import Any

# The JSON-RPC code of a failure with a kind. Codes of JSON-RPC itself are protocol errors.
FAILURE = -32000


class AdapterError(Exception):
    """A failed call, with the kind that tells the server what to do next. Use a subclass.

    The message reaches people, also the caller of a tool. It must not contain a secret. `after` is the wait in seconds
    before the next attempt, if the engine gave one. `final` says that a later attempt cannot learn more: after a
    start that is `Uncertain`, the task ends at once, and the message names the place to look at.
    """

    kind = "unavailable"

    def __init__(self, message: str, *, after: float | None = None, final: bool = False) -> None:
        super().__init__(message)
        self.after, self.final = after, final

    def data(self) -> dict[str, Any]:
        """Returns `error.data` on the wire."""
        after = {} if self.after is None else {"after_ms": int(self.after * 1000)}
        return {"kind": self.kind} | after | ({"final": True} if self.final else {})


class Rejected(AdapterError):
    """The engine understood the request and refused it. The task ends as failed, with this message."""

    kind = "rejected"


class Denied(AdapterError):
    """The engine does not accept the credentials, or they lack a permission."""

    kind = "denied"


class Config(AdapterError):
    """The deployment is wrong: a member of the config or of a target is missing or has no counterpart in the engine."""

    kind = "config"


class Limited(AdapterError):
    """The engine asks for patience. After a start it means that nothing has started."""

    kind = "limited"


class Unavailable(AdapterError):
    """The engine cannot be reached now. Raised by a first start, it promises that nothing has started."""

    kind = "unavailable"


class Uncertain(AdapterError):
    """A start may have taken effect. The server then searches for the job."""

    kind = "uncertain"


class Unsupported(AdapterError):
    """Only for `cancel`: the engine has no way to stop this job."""

    kind = "unsupported"


class ProtocolError(Exception):
    """A message that is not valid in the protocol: its JSON-RPC code and a message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def one_line(text: str, most: int = 2000) -> str:
    """Returns the text in one line without control characters, with at most `most` characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= most else line[: most - 3] + "..."


def from_exception(error: BaseException, first_start: bool) -> AdapterError:
    """Returns what is reported for an exception. `first_start` is true for a start without `may_exist`: what
    went wrong there may have gone wrong after the engine took the job, so nobody may assume that nothing started."""
    if isinstance(error, AdapterError):
        return error
    message = one_line(f"{type(error).__name__}: {error}")
    return Uncertain(message) if first_start else Unavailable(message)


def to_wire(error: BaseException, first_start: bool = False) -> dict[str, Any]:
    """Returns the JSON-RPC error object for an exception."""
    if isinstance(error, ProtocolError):
        return {"code": error.code, "message": one_line(str(error))}
    failure = from_exception(error, first_start)
    return {"code": FAILURE, "message": one_line(str(failure)) or failure.kind, "data": failure.data()}
