"""Carries the protocol over standard input and output: one message a line. It must not know what a method does.

What the adapter prints goes to standard error, which is the server's log.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from typing import Any, BinaryIO

from .calls import MOST_IN, Calls, encode, not_json


class Server:
    """Serves one adapter over a pair of streams."""

    def __init__(self, kind: type, source: BinaryIO, out: int) -> None:
        self._kind, self._source, self._out = kind, source, out
        self._turn = threading.Lock()
        self._calls: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Answers calls until the server is gone or says `shutdown`."""
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._adapter = Calls(self._kind, lambda method, params: self._send({"method": method, "params": params}))
        threading.Thread(target=self._read, daemon=True, name="stdin").start()
        await self._over.wait()
        await self._adapter.close()

    def _read(self) -> None:
        while line := self._source.readline(MOST_IN + 1):
            if len(line) > MOST_IN:
                print(f"a message has more than {MOST_IN} bytes: giving up", file=sys.stderr)
                break
            self._loop.call_soon_threadsafe(self._take, line)
        self._loop.call_soon_threadsafe(self._over.set)

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            self._send(not_json(error))
            return
        task = self._loop.create_task(self._answer(message))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _answer(self, message: Any) -> None:
        reply = await self._adapter.answer(message)
        if reply is not None:
            self._send(reply)
        if isinstance(message, dict) and message.get("method") == "shutdown":
            self._over.set()

    def _send(self, message: dict[str, Any]) -> None:
        line = encode(message) or b""
        with self._turn:
            while line:
                try:
                    line = line[os.write(self._out, line) :]
                except OSError:
                    # The server is gone.
                    self._loop.call_soon_threadsafe(self._over.set)
                    return


def serve(kind: type) -> None:
    """Runs the adapter until taskbridge ends it. Call it as the last line of the program.

    From here on, standard output belongs to the protocol: what `print` or a library writes goes to standard error.
    Programs that the adapter starts get neither.
    """
    sys.stdout.flush()
    source, out = os.fdopen(os.dup(0), "rb"), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    for stream in (sys.stdout, sys.stderr):
        getattr(stream, "reconfigure", lambda **_: None)(line_buffering=True)
    # The terminal sends it to the whole group; when to end is the server's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(_until_over(Server(kind, source, out)))


async def _until_over(server: Server) -> None:
    await server.serve()
    sys.stdout.flush()
    sys.stderr.flush()
    # A call that still runs on a thread would keep the program alive. Its job goes on in the engine.
    os._exit(0)
