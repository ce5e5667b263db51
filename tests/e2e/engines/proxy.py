"""A proxy between the bridge and an engine's API: it counts the calls, loses replies to calls that were served, and refuses
calls while it is told to. It must not know what the calls mean.
"""

import asyncio
import random
import re
import threading
from collections import Counter
from collections.abc import Callable
from typing import Protocol

# What a request asks for, told by its method, its path and its headers.
NameOf = Callable[[str, str, dict[str, str]], str]
# An answer that refuses: its status, its body, and headers of its own.
Refusal = tuple[int, bytes, str]


class Changes(Protocol):
    """What an engine answers otherwise than it would, by the operation and the body of a request."""

    def instead(self, operation: str, body: bytes) -> bytes | None: ...
    def served(self, operation: str, body: bytes, reply: bytes) -> bytes: ...


class Proxy:
    """Listens on a free port of this machine, in a thread of its own, until the process ends."""

    def __init__(
        self, upstream: int, losses: dict[str, float], seed: int, name_of: NameOf, refusal: Refusal, changes: Changes | None = None
    ) -> None:
        self.asked: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.refused = 0
        self.throttled = False
        self.losses = losses
        self._upstream = upstream
        self._name_of = name_of
        self._refusal = refusal
        self._changes = changes
        self._random = random.Random(seed)
        self._strike: tuple[str, Callable[[int], None]] | None = None
        self._lock = threading.Lock()
        ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._listen(ready)), daemon=True).start()
        ready.wait()

    def at_next(self, operation: str, strike: Callable[[int], None]) -> None:
        """Calls this once with the port of the caller, when the next call of the operation was served and before its reply is passed
        on. The reply is lost then."""
        with self._lock:
            self._strike = (operation, strike)

    def give_up(self) -> bool:
        """Takes back what `at_next` was told. False if it was too late for that."""
        with self._lock:
            strike, self._strike = self._strike, None
            return strike is not None

    async def _listen(self, ready: threading.Event) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**20)
        self.port: int = server.sockets[0].getsockname()[1]
        ready.set()
        await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            reply = await self._reply(reader, writer.get_extra_info("peername")[1])
            if reply is None:
                writer.transport.abort()
            else:
                writer.write(reply)
                await writer.drain()
                writer.close()
        except (OSError, asyncio.IncompleteReadError):
            writer.transport.abort()

    async def _reply(self, reader: asyncio.StreamReader, caller: int) -> bytes | None:
        """The answer to one request; `None` if it is lost, or nobody waits for it any more."""
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")[:-2]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        method, path, _ = lines[0].split(" ")
        operation = self._name_of(method, path, headers)
        self.asked[operation] += 1
        if self.throttled:
            self.refused += 1
            return answer(*self._refusal)
        instead = self._changes.instead(operation, body) if self._changes else None
        if instead:
            return instead
        kept = [line for line in lines if not line.lower().startswith("connection:")]
        request = "\r\n".join([*kept, "connection: close", "", ""]).encode("latin-1") + body
        reply = asyncio.ensure_future(self._forward(request))
        # A client says no more than one request here, so this ends when it goes away.
        gone = asyncio.ensure_future(reader.read(1))
        await asyncio.wait([reply, gone], return_when=asyncio.FIRST_COMPLETED)
        if not reply.done():
            reply.cancel()
            return None
        gone.cancel()
        served = reply.result()
        if self._changes:
            served = self._changes.served(operation, body, served)
        return None if self._loses(operation, caller) else served

    async def _forward(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        try:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
            # A job of Toil is a child of its server, and keeps the connection open.
            return head + (await reader.readexactly(int(length[1])) if length else await reader.read())
        finally:
            writer.close()

    def _loses(self, operation: str, caller: int) -> bool:
        with self._lock:
            strike = self._strike
            struck = strike is not None and strike[0] == operation
            if struck:
                self._strike = None
        if struck and strike:
            strike[1](caller)
        lost = struck or self._random.random() < self.losses.get(operation, 0)
        self.lost[operation] += lost
        return lost


def answer(status: int, body: bytes, more: str) -> bytes:
    head = f"HTTP/1.1 {status} told\r\ncontent-length: {len(body)}\r\n{more}"
    return f"{head}connection: close\r\n\r\n".encode() + body
