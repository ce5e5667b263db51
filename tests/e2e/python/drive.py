"""What every driven Python client shares: the lines that `table/` sends, and what they ask of a client.

A driven client reads one JSON object per line from standard input (`{"op": "start", "tool": "count", ...}`) and
answers each with one line, `{"ok": ...}` or `{"failed": "why"}`. It calls its library as a user would, and decides
nothing about what is right: that is said by `table/scenarios.py`.
"""

import argparse
import asyncio
import json
import logging
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

TERMINAL = ("completed", "failed", "cancelled")
MODERN = "2026-07-28"


@dataclass
class Setup:
    """How the client is to connect: a URL or a server's command, and which generation it speaks."""

    url: str | None
    command: list[str]
    modern: bool
    tasks: bool

    @property
    def env(self) -> dict[str, str]:
        """The environment of a server that the client starts: its state lies where the others' does."""
        return dict(os.environ)


class Client:
    """One connected client. A subclass leaves out what its library does not have."""

    libraries: tuple[str, ...]

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.begin(accepts=True)

    def begin(self, accepts: bool) -> None:
        """Forgets what was asked. Questions from here on are accepted, or declined."""
        self.accepts = accepts
        self._asked: list[str] = []

    def answer(self, message: str, shape: Any) -> Any:
        """Answers a question as the scenario said; `shape` makes the library's own answer."""
        self._asked.append(message)
        if not self.accepts:
            return shape(action="decline")
        # What needs no more than consent has an empty form, or one word for it.
        content: dict[str, Any] = {"name": "Ada"} if "name" in message else {"approve": True} if "approve" in message else {}
        return shape(action="accept", content=content)

    def questions(self) -> list[str]:
        """What was asked since the client connected."""
        return self._asked

    def spoke(self, version: str | None) -> None:
        """Holds that the library did not fall back to another generation by itself."""
        if (version == MODERN) != self.setup.modern:
            raise RuntimeError(f"the library settled for {version}")

    async def connect(self) -> None: ...
    async def disconnect(self) -> None: ...
    async def tools(self) -> list[str]: ...
    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]: ...
    async def start(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]: ...
    async def look(self, task: str) -> dict[str, Any]: ...
    async def poll(self, task: str) -> dict[str, Any]: ...
    async def result(self, task: str) -> dict[str, Any]: ...
    async def cancel(self, task: str) -> None: ...
    async def progress(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]: ...
    async def resources(self) -> list[str]: ...
    async def read(self, uri: str) -> str: ...
    async def prompt(self, name: str, arguments: dict[str, str]) -> str: ...
    async def complete(self, prompt: str, argument: str, value: str) -> list[str]: ...


def outcome(content: list[Any], structured: Any, failed: bool | None) -> dict[str, Any]:
    """A tool result in the words of the table."""
    text = "".join(block.text for block in content if getattr(block, "type", None) == "text")
    links = [str(block.uri) for block in content if getattr(block, "type", None) == "resource_link"]
    return {"text": text.rstrip("\n"), "structured": structured, "error": bool(failed), "links": links}


async def begin(client: Client, accepts: bool) -> None:
    client.begin(accepts)
    try:
        await client.connect()
    except Exception:
        # It may have come so far as to hold a connection.
        with suppress(Exception):
            await client.disconnect()
        raise


async def handle(client: Client, line: dict[str, Any]) -> Any:
    op = line.pop("op")
    if op == "open":
        return await begin(client, line["accepts"])
    if op == "close":
        return await client.disconnect()
    if op == "questions":
        return client.questions()
    return await getattr(client, op)(**line)


def reason(error: BaseException) -> str:
    """The first real error inside the groups that task groups make."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


async def serve(client: Client) -> None:
    say({"ok": ", ".join(f"{name} {version(name)}" for name in client.libraries)})
    while line := await asyncio.to_thread(sys.stdin.readline):
        try:
            say({"ok": await handle(client, json.loads(line))})
        except Exception as error:
            say({"failed": reason(error)})


def main(make: type[Client]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--modern", action="store_true", help="speak 2026-07-28, not 2025-11-25")
    parser.add_argument("--no-tasks", action="store_true", help="know nothing of tasks")
    parser.add_argument("--url")
    parser.add_argument("--stdio", nargs=argparse.REMAINDER, default=[])
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    asyncio.run(serve(make(Setup(options.url, options.stdio, options.modern, not options.no_tasks))))
