"""The rows of the table: which client, in which generation, over what. What a client cannot do is said here, and why.

A reason names what the library lacks. What the server lacks is no reason: that is a failure.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from peer import Peer
from server import Server

HERE = Path(__file__).resolve().parent.parent
LEGACY, MODERN = "2025-11-25", "2026-07-28"


@dataclass(frozen=True)
class Place:
    """Where things are: the clients' packages, the server's program, a folder for states, and a log of complaints."""

    packages: Path
    server: Path
    work: Path
    log: IO[bytes]

    def python(self, name: str) -> list[str]:
        return [str(self.packages / name / "bin/python"), "-B", str(HERE / f"python/drive_{name}.py")]

    def node(self, name: str) -> list[str]:
        return [str(self.packages / "node22/node_modules/.bin/node"), str(self.packages / name / "drive.mjs")]

    def rust(self, name: str) -> list[str]:
        return [str(self.packages / "rust/debug/taskbridge-e2e"), name]


@dataclass(frozen=True)
class Client:
    """A client library in one generation. `without` says what the library lacks: scenario, reason."""

    label: str
    program: str
    kind: str
    generation: str
    without: dict[str, str] = field(default_factory=dict)

    @property
    def tasks(self) -> bool:
        """Whether it has the tasks of its generation. Without, it calls plainly."""
        return "call" not in self.without


def lacks(why: str, *scenarios: str) -> dict[str, str]:
    return dict.fromkeys(scenarios, why)


NO_TASKS = lacks("has no requests for the tasks of 2025-11-25", "call", "poll", "result")
NO_PROGRESS = lacks("prints no progress", "progress")
FIRST_PAGE = lacks("lists the first page only, and knows no schema of another", "typed")
ONE_SHOT = lacks("answers no questions", "ask", "confirm") | lacks("completes no arguments", "offers") | FIRST_PAGE
ALWAYS_TASKS = lacks("declares the tasks extension with every request", "plain", "typed")

CLIENTS = [
    Client("Python SDK 1", "mcp1", "python", LEGACY),
    Client("Python SDK 2", "mcp2", "python", LEGACY, NO_TASKS),
    Client("Python SDK 2", "mcp2", "python", MODERN),
    Client("FastMCP 2", "fastmcp2", "python", LEGACY),
    Client("FastMCP 3", "fastmcp3", "python", LEGACY),
    Client("FastMCP 4", "fastmcp4", "python", LEGACY, NO_TASKS),
    Client("FastMCP 4", "fastmcp4", "python", MODERN),
    Client("TypeScript SDK 1", "sdk1", "node", LEGACY),
    Client("TypeScript SDK 2", "sdk2", "node", LEGACY),
    Client("TypeScript SDK 2", "sdk2", "node", MODERN),
    Client("Inspector 1", "inspector1", "node", LEGACY, ONE_SHOT | NO_TASKS | NO_PROGRESS),
    Client("Inspector mcpdo", "inspector", "node", LEGACY, NO_PROGRESS),
    Client("Inspector mcpdo", "inspector", "node", MODERN, NO_PROGRESS | ALWAYS_TASKS),
    Client("Rust SDK 2", "rmcp2", "rust", LEGACY),
    Client("Rust SDK 3", "rmcp3", "rust", LEGACY, NO_TASKS),
    Client("Rust SDK 3", "rmcp3", "rust", MODERN),
]
# Whose tasks the clients of the other generation take over.
STARTERS = {
    LEGACY: Client("Python SDK 2", "mcp2", "python", MODERN),
    MODERN: Client("Python SDK 1", "mcp1", "python", LEGACY),
}


class Row:
    """A client over one transport, with servers of its own state, and the programs that run for it."""

    def __init__(self, client: Client, over: str, place: Place) -> None:
        self.client = client
        self.over = over
        self._place = place
        state = place.work / f"{client.program}-{client.generation}-{over}"
        self._env = {**os.environ, "XDG_STATE_HOME": str(state)}
        self._server: Server | None = None
        self._peers: dict[tuple[str, str, bool], Peer] = {}

    @property
    def modern(self) -> bool:
        return self.client.generation == MODERN

    @property
    def tasks(self) -> bool:
        return self.client.tasks

    @property
    def library(self) -> str:
        return self._peer(self.client, self.tasks).library

    @contextmanager
    def connected(self, accepts: bool = True, plain: bool = False) -> Iterator[Peer]:
        """The client, connected; `plain` is the client of somebody who never heard of tasks."""
        # In 2025-11-25 a call says by itself whether it is to be a task, and a client declares nothing.
        silent = plain and self.modern
        with self._peer(self.client, self.tasks and not silent).connected(accepts) as peer:
            yield peer

    @contextmanager
    def other(self) -> Iterator[Peer]:
        """A client of the other generation, connected."""
        with self._peer(STARTERS[self.client.generation], tasks=True).connected() as peer:
            yield peer

    def _peer(self, client: Client, tasks: bool) -> Peer:
        key = (client.program, client.generation, tasks)
        if key not in self._peers:
            command: list[str] = getattr(self._place, client.kind)(client.program)
            command += ["--modern"] * (client.generation == MODERN) + ["--no-tasks"] * (not tasks)
            self._peers[key] = Peer(command + self._target(), self._env, self._place.log)
        return self._peers[key]

    def _target(self) -> list[str]:
        command = [str(self._place.server), "serve", "--config", str(HERE / "taskbridge.toml")]
        if self.over == "stdio":
            return ["--stdio", *command, "--stdio"]
        self._server = self._server or Server(command, self._env, self._place.log)
        return ["--url", self._server.url]

    def drop(self) -> None:
        """Forgets the programs after a failure, so that the next scenario has new ones."""
        for peer in self._peers.values():
            peer.kill()
        self._peers.clear()

    def end(self) -> None:
        peers, self._peers = self._peers, {}
        for peer in peers.values():
            peer.end()
        if self._server:
            self._server.stop()
