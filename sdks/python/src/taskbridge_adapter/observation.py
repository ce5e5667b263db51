"""What an adapter says of a job: its state, output, progress, questions and notes. Plain data in the shapes of the
wire. A function for each state makes the common case one call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .errors import one_line

# The largest output of a job, in bytes of JSON. What is larger belongs into a file of the engine.
MOST_OUTPUT = 1024 * 1024
# The deepest nesting of data, and the most values in it: what has more is shown as a text. The server reads messages of
# at most 128 levels and 400,000 values.
MOST_DEPTH, MOST_VALUES = 64, 100_000


@dataclass(frozen=True)
class Artifact:
    """A file that a job left. `name` is a relative path with `/` and without `..`."""

    name: str
    mime_type: str | None = None
    size: int | None = None


@dataclass(frozen=True)
class Output:
    """The result of a job: blocks of content as in MCP, data, and files.

    `raw` has the indexes of blocks that the job printed. The server may shorten those.
    """

    content: Sequence[dict[str, Any]] = ()
    structured: Any = None
    raw: Sequence[int] = ()
    artifacts: Sequence[Artifact] = ()

    def to_wire(self) -> dict[str, Any]:
        """Returns the output as it is sent. One that is too large is replaced by a text that says so."""
        wire: dict[str, Any] = {"content": list(self.content)} if self.content else {}
        if self.structured is not None:
            wire["structured"] = self.structured
        if self.raw:
            wire["raw"] = list(self.raw)
        if self.artifacts:
            wire["artifacts"] = [_without_none(vars(each)) for each in self.artifacts]
        size = len(json.dumps(wire, ensure_ascii=False).encode(errors="replace"))
        if size <= MOST_OUTPUT:
            return wire
        says = f"the output has {size} bytes, and at most {MOST_OUTPUT} can be returned: read it in the engine"
        return {"content": [_text(says)]}


@dataclass(frozen=True)
class Question:
    """A question that a job waits for. `id` is the same in every observation.

    Exactly one of `schema` (a form: a flat JSON Schema object) and `url` (a page to visit, also for secrets) is set.
    """

    id: str
    message: str
    schema: dict[str, Any] | None = None
    url: str | None = None


@dataclass(frozen=True)
class Note:
    """A message of a job. `n` is the same in every observation, and rises. `level` is one of RFC 5424, in lower case:
    `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert`, `emergency`."""

    n: int
    data: Any
    level: str = "info"


@dataclass(frozen=True)
class Observation:
    """The state of a job, as one poll saw it. Use `queued()`, `running()`, `succeeded()`, `failed()`, `cancelled()`
    and `GONE` to create one, and `dataclasses.replace` to add more.

    `renamed_to` is the new handle, if the engine has renamed the job: in each poll by the old one. `link` is the address
    of the job in the engine's own pages, for people; it begins with `https://`."""

    state: str
    output: Output | None = None
    message: str | None = None
    progress: tuple[float, float | None] | None = None
    since_ms: int | None = None
    questions: Sequence[Question] = ()
    notes: Sequence[Note] = ()
    log_bytes: int | None = None
    renamed_to: str | None = None
    link: str | None = None

    def with_link(self, link: str | None) -> Observation:
        """Returns the observation with the address of the job in the engine's own pages."""
        return replace(self, link=link)

    def with_notes(self, notes: Sequence[Note]) -> Observation:
        """Returns the observation with these notes."""
        return replace(self, notes=notes)

    def to_wire(self) -> dict[str, Any]:
        """Returns the observation as it is sent."""
        wire: dict[str, Any] = {"state": self.state}
        if self.state in ("succeeded", "failed", "cancelled"):
            wire["state"] = {self.state: (self.output or Output()).to_wire()}
        if self.message is not None:
            wire["message"] = one_line(self.message)
        if self.progress is not None:
            done, total = self.progress
            wire["progress"] = {"done": done} | ({} if total is None else {"total": total})
        if self.since_ms is not None:
            wire["since"] = self.since_ms
        if self.questions:
            wire["questions"] = [_without_none(vars(each)) for each in self.questions]
        if self.notes:
            wire["notes"] = [vars(each) for each in self.notes]
        if self.log_bytes is not None:
            wire["log_bytes"] = self.log_bytes
        if self.renamed_to is not None:
            wire["renamed_to"] = self.renamed_to
        if self.link is not None:
            wire["link"] = self.link
        return wire


@dataclass(frozen=True)
class Started:
    """A job that the engine has accepted. `first` is its state, if the engine said that already."""

    handle: str
    first: Observation | None = None


@dataclass(frozen=True)
class LogText:
    """The end of a log. `cut` says that text was left out."""

    text: str
    cut: bool = False


@dataclass(frozen=True)
class Tool:
    """A tool that the engine offers. `target` is what a config would contain."""

    name: str
    target: dict[str, Any]
    input_schema: dict[str, Any] = field(default_factory=lambda: {"type": "object"})
    title: str | None = None
    description: str | None = None
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """The result of a check. `verdict` is `ok`, `warning` or `fault`; a fault has a `fix`."""

    what: str
    verdict: str
    says: str
    fix: str | None = None


GONE = Observation("gone")
"""The engine does not know the job. Never use it for a fault: raise an exception."""


def queued(message: str | None = None) -> Observation:
    """The engine accepted the job, and it does not run yet."""
    return Observation("queued", message=message)


def running(
    message: str | None = None,
    done: float | None = None,
    total: float | None = None,
    questions: Sequence[Question] = (),
) -> Observation:
    """The job runs, or waits for an answer. `done` and `total` are its progress, in units of its own."""
    progress = None if done is None else (done, total)
    return Observation("running", message=message, progress=progress, questions=questions)


def succeeded(result: Any = None, artifacts: Sequence[Artifact] = ()) -> Observation:
    """The job succeeded. `result` is a text, an `Output`, `None`, or data that JSON can say."""
    return Observation("succeeded", output=_output(result, artifacts))


def failed(message: str, output: Any = None, artifacts: Sequence[Artifact] = ()) -> Observation:
    """The job ran and failed. `message` is the reason in one line."""
    shown = output if output is not None else message
    return Observation("failed", output=_output(shown, artifacts), message=message or "the job failed")


def cancelled(output: Any = None) -> Observation:
    """The job was cancelled before it ended by itself."""
    return Observation("cancelled", output=_output(output, ()))


def _output(result: Any, artifacts: Sequence[Artifact]) -> Output:
    match result:
        case Output():
            return replace(result, artifacts=artifacts) if artifacts else result
        case None:
            return Output(artifacts=artifacts)
        case str():
            return Output(content=[_text(result)], artifacts=artifacts)
    try:
        # A member that JSON cannot say, such as a date, is shown as a text.
        shown = json.dumps(result, default=str, allow_nan=False, ensure_ascii=False)
        value = json.loads(shown)
    except (TypeError, ValueError, RecursionError):
        return Output(content=[_text(_shown(result))], artifacts=artifacts)
    depth, count = measure(value)
    if depth > MOST_DEPTH or count > MOST_VALUES:
        return Output(content=[_text(shown)], artifacts=artifacts)
    return Output(content=[_text(shown)], structured=value, artifacts=artifacts)


def _shown(value: Any) -> str:
    try:
        return str(value)
    except (ValueError, RecursionError):
        return f"a value of the type {type(value).__name__} that cannot be shown"


def measure(value: Any) -> tuple[int, int]:
    """Returns how deep lists and objects are nested, and how many values there are: level by level, without a stack."""
    depth, count, level = 0, 1, [value]
    while level := [each for each in level if isinstance(each, (dict, list))]:
        depth += 1
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
        count += len(level)
    return depth, count


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _without_none(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
