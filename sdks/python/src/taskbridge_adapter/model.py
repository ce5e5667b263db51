"""What the server sends with a call: the job to start, the persons, the answers. Plain data, read leniently: members
that are not known are ignored."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

from .errors import Config, ProtocolError

INVALID_PARAMS = -32602


class Fields(dict[str, Any]):
    """An object of the config file. A member that is missing is an error with its name, and not a `KeyError`."""

    def __init__(self, where: str, members: dict[str, Any]) -> None:
        super().__init__(members)
        self._where = where

    def __missing__(self, name: str) -> Any:
        raise Config(f"{self._where}.{name} is missing; add it")


class Handle(str):
    """A handle, as a text. `watched` says that a client waits for progress: for other jobs, spend no call of the
    engine on progress or messages alone. `age` is the time in seconds since the engine accepted the job."""

    watched: bool = True
    age: float = float("inf")


@dataclass(frozen=True)
class Person:
    """The person for whom a job is started, answered or cancelled. `name` may be the same for two persons; issuer and
    subject together are unique."""

    name: str
    issuer: str | None = None
    subject: str | None = None
    client: str | None = None
    tenant: str | None = None
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class InputFile:
    """A file that the caller sent in place of the argument `parameter`. `name` has no path, but check it again."""

    parameter: str
    name: str
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Job:
    """A job to start, or to find.

    `key` is random, the same for every attempt at this job, and never used for another job; `uuid` is the same value
    in the form of a UUID. `may_exist` says that an earlier attempt may have reached the engine. `first_attempt_at` is
    the time of the first attempt, in seconds since 1970 by the server's clock.
    """

    key: str
    uuid: str
    target: Fields = field(repr=False)
    arguments: dict[str, Any] = field(repr=False)
    may_exist: bool = False
    first_attempt_at: float | None = None
    files: tuple[InputFile, ...] = ()
    traceparent: str | None = None
    tracestate: str | None = None
    on_behalf_of: Person | None = None


@dataclass(frozen=True)
class Answer:
    """The answer to a question. `action` is `accept`, `decline` or `cancel`; `content` is the completed form."""

    action: str
    content: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def accepted(self) -> bool:
        """Returns true if the person accepted."""
        return self.action == "accept"


def member(params: dict[str, Any], name: str, kind: type) -> Any:
    """Returns a required member of the params of a call."""
    value = params.get(name)
    if not isinstance(value, kind):
        raise ProtocolError(INVALID_PARAMS, f"params.{name} must be of the type {kind.__name__}")
    return value


def person(value: Any) -> Person | None:
    """Reads a person; `None` if there is none."""
    if not isinstance(value, dict):
        return None
    known = {name: value.get(name) for name in ("issuer", "subject", "client", "tenant")}
    return Person(name=str(value.get("name", "")), groups=tuple(value.get("groups") or ()), **known)


def job(params: dict[str, Any]) -> Job:
    """Reads the params of `start` and `find`."""
    trace, first = params.get("trace") or {}, params.get("first_attempt_at")
    files = tuple(
        InputFile(
            member(file, "parameter", str), member(file, "name", str), base64.b64decode(member(file, "data", str))
        )
        for file in params.get("files") or ()
    )
    return Job(
        key=member(params, "key", str),
        uuid=str(params.get("uuid", "")),
        target=Fields("target", member(params, "target", dict)),
        arguments=member(params, "arguments", dict),
        may_exist=bool(params.get("may_exist")),
        first_attempt_at=first / 1000 if isinstance(first, (int, float)) else None,
        files=files,
        traceparent=trace.get("parent"),
        tracestate=trace.get("state"),
        on_behalf_of=person(params.get("on_behalf_of")),
    )


def handles(params: dict[str, Any]) -> list[Handle]:
    """Reads the jobs of `observe_all`."""
    read = []
    for each in member(params, "jobs", list):
        handle = Handle(member(each, "handle", str))
        handle.watched = bool(each.get("watched", True))
        handle.age = each["age_ms"] / 1000 if isinstance(each.get("age_ms"), (int, float)) else float("inf")
        read.append(handle)
    return read


def answer(params: dict[str, Any]) -> Answer:
    """Reads the answer of a person."""
    value = member(params, "answer", dict)
    return Answer(member(value, "action", str), value.get("content") or {})
