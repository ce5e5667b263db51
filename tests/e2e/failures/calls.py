"""Failing calls: made as tasks by the Python library `mcp`, polled to their end, and read as an agent reads them. What differs
between runs is replaced by an example. It must not know what a text must say.
"""

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).resolve().parent.parent / name) for name in ("python", "table", "engines")]

import mcp.types as types  # noqa: E402
from mcp import McpError  # noqa: E402
from peer import Failed  # noqa: E402
from reviewed import Read, call_in_words  # noqa: E402
from session import TERMINAL, Peer, Server  # noqa: E402

# This only ends what hangs: a limit of time of Slurm is looked at every half minute, and is a minute at least.
SECONDS = 600
# How often a task is looked at for words.
EVERY = 0.2


@dataclass
class Started:
    """A call that became a task."""

    peer: Peer
    task: str

    async def seen(self, holds: Callable[[types.GetTaskResult], bool]) -> types.GetTaskResult:
        """Polls until this holds of the task, or it has ended."""
        while True:
            status: types.GetTaskResult = await self.peer.tasks.get_task(self.task)
            if status.status in TERMINAL or holds(status):
                return status
            await asyncio.sleep(EVERY)


@dataclass(frozen=True)
class Failure:
    """One failing call. `which`, `why` and `next` are the words that answer: which step failed, why, and what to do."""

    title: str
    tool: str
    which: str
    why: str
    next: str
    arguments: dict[str, Any] = field(default_factory=dict)
    # The tool's part of the config, behind its backend and description.
    config: str = ""
    backend: str = "engine"
    # What somebody else does once the call became a task.
    meanwhile: Callable[[Started], Awaitable[None]] | None = None
    # A parameter that names the task of another call, and the tool of that.
    after: tuple[str, str] | None = None
    # The call is made only when all of these are over.
    alone: bool = False

    @property
    def answers(self) -> dict[str, str]:
        return {"which step failed": self.which, "why": self.why, "what to do next": self.next}

    @property
    def tool_config(self) -> str:
        return f'[tools.{self.tool}]\nbackend = "{self.backend}"\ndescription = "{self.title}."\n{self.config}\n'


# What is different in each run, whatever the engine, and what stands for it.
EXAMPLES = [
    # An id of a task.
    (r"(?<![a-z2-7])[a-z2-7]{32}\b", "t1"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "00000000-0000-4000-8000-000000000000"),
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", "2026-01-01T12:00:00Z"),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)? UTC", "2026-01-01 12:00 UTC"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:8000"),
]


def with_examples(text: str, examples: list[tuple[str, str]]) -> str:
    for pattern, example in [*examples, *EXAMPLES]:
        text = re.sub(pattern, example, text)
    return text


def shown(block: Any) -> str:
    """A block of a result as a client shows it to its model."""
    if isinstance(block, types.TextContent):
        return block.text.rstrip("\n")
    if isinstance(block, types.ResourceLink):
        return f"[link] {block.uri} {block.description or block.name}"
    return f"[{block.type}]"


async def read_failure(peer: Peer, failure: Failure, examples: list[tuple[str, str]]) -> Read:
    """Makes the call and reads what comes of it."""
    arguments = dict(failure.arguments)
    if failure.after:
        parameter, other = failure.after
        first = Started(peer, (await peer.start(other, {})).taskId)
        await first.seen(lambda _: False)
        arguments[parameter] = first.task
    call = with_examples(call_in_words(failure.tool, arguments), examples)
    status = ""
    try:
        started = Started(peer, (await peer.start(failure.tool, arguments)).taskId)
        if failure.meanwhile:
            await failure.meanwhile(started)
        ended = await started.seen(lambda _: False)
        status = f"[{ended.status}] {ended.statusMessage or ''}".rstrip()
        if ended.status == "completed":
            raise Failed(f"{failure.title}: the call succeeded")
        result = await peer.result(started.task)
        if not result.isError:
            raise Failed(f"{failure.title}: the result is no error: {result}")
        said = "\n\n".join(shown(block) for block in result.content)
    except McpError as error:
        said = f"[error {error.error.code}] {error.error.message}"
    return Read(failure.title, call, with_examples(status, examples), with_examples(said, examples))


async def read_all(url: str, failures: list[Failure], examples: list[tuple[str, str]]) -> list[Read]:
    """Makes all calls side by side, but those that need to be alone, which come before them."""
    async with Server(url, []).connect() as peer, asyncio.timeout(SECONDS):
        read = {one.title: await read_failure(peer, one, examples) for one in failures if one.alone}
        rest = [one for one in failures if not one.alone]
        found = await asyncio.gather(*(read_failure(peer, one, examples) for one in rest))
        read |= {one.title: text for one, text in zip(rest, found, strict=True)}
    return [read[one.title] for one in failures]
