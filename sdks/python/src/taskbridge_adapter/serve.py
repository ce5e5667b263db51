"""Carries the protocol over standard input and output: one message a line. It must not know what a method does.

What the adapter prints goes to standard error, which is the server's log. Methods that are not async run on threads,
so that a slow one blocks no other.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

from .binding import Binding
from .errors import Unavailable, to_wire

# The longest line that the server reads, and the longest that it writes, in bytes.
MOST_OUT, MOST_IN = 4 * 1024 * 1024, 16 * 1024 * 1024
# Calls that run at a time. The server makes 16, and those that it has given up may still run.
THREADS = 64
# For how long `close` of the adapter may take at the end, in seconds.
CLOSING = 1.5
PARSE_ERROR, INVALID_REQUEST = -32700, -32600


class Host:
    """The server, as an adapter sees it. Every method may be called from any thread."""

    def __init__(self, params: dict[str, Any], notify: Callable[[str, dict[str, Any]], None]) -> None:
        self.name = str(params.get("name", ""))
        self.call_limit = params.get("call_limit_ms", 27_000) / 1000
        """Time after which the server gives a call up, in seconds. Set the timeouts of clients below it."""
        self.state_dir = str(params.get("state_dir", ""))
        self.config_dir = str(params.get("config_dir", ""))
        self._notify = notify

    def changed(self, *handles: str) -> None:
        """Hints that these jobs may have changed. The class must have `has_changed = True`."""
        self._notify("changed", {"jobs": [str(handle) for handle in handles]})

    def note(self, text: str, level: str = "info") -> None:
        """Writes a line to the server's log; the level is `debug`, `info`, `warning` or `error`."""
        self._notify("note", {"level": level, "text": text})


class Server:
    """Serves one adapter over a pair of streams."""

    def __init__(self, kind: type, source: BinaryIO, out: int) -> None:
        self._kind, self._source, self._out = kind, source, out
        self._binding = Binding(kind, self._run)
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="call")
        self._turn = threading.Lock()
        self._limit: float | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._is_async = any(inspect.iscoroutinefunction(method) for _, method in inspect.getmembers(kind))

    async def serve(self) -> None:
        """Answers calls until the server is gone or says `shutdown`."""
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        threading.Thread(target=self._read, daemon=True, name="stdin").start()
        await self._over.wait()
        try:
            await asyncio.wait_for(self._binding.close(), CLOSING)
        except Exception as error:
            print(f"closing failed: {error!r}", file=sys.stderr)

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
            self._send({"id": None, "error": {"code": PARSE_ERROR, "message": f"not JSON: {type(error).__name__}"}})
            return
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            self._send({"id": None, "error": {"code": INVALID_REQUEST, "message": "not a request"}})
            return
        # A notification of the server, of which there are none that matter here.
        if "id" not in message:
            return
        task = self._loop.create_task(self._answer(message["id"], message["method"], message.get("params") or {}))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _answer(self, id: Any, method: str, params: dict[str, Any]) -> None:
        first_start = method == "start" and not params.get("may_exist")
        try:
            self._send({"id": id, "result": await self._result(method, params)})
        except Exception as error:
            self._send({"id": id, "error": to_wire(error, first_start)})
        if method == "shutdown":
            self._over.set()

    async def _result(self, method: str, params: dict[str, Any]) -> Any:
        match method:
            case "describe":
                return self._binding.describe()
            case "initialize":
                host = Host(params, lambda name, of: self._send({"method": name, "params": of}))
                result = await self._binding.initialize(params, host)
                self._limit = host.call_limit
                return result
            case "shutdown":
                return None
        return await self._binding.call(method, params)

    async def _run(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if inspect.iscoroutinefunction(method):
            async with asyncio.timeout(self._limit):
                return await method(*arguments, **named)
        if method is self._kind and self._is_async:
            # Clients of asyncio are created in the loop that they run in.
            return method(*arguments, **named)
        result = await self._loop.run_in_executor(self._pool, lambda: _call(method, *arguments, **named))
        if inspect.isawaitable(result):
            # An async method within a decorator that is not.
            async with asyncio.timeout(self._limit):
                return await result
        return result

    def _send(self, message: dict[str, Any]) -> None:
        """Writes one message. A text that UTF-8 cannot say is replaced, so that a line is always valid."""
        try:
            line = _line(message)
            if len(line) > MOST_OUT:
                raise Unavailable(f"the reply has {len(line)} bytes, and at most {MOST_OUT} can be sent")
        except Exception as error:
            if "id" not in message:
                print(f"a notification was not sent: {error!r}", file=sys.stderr)
                return
            line = _line({"id": message["id"], "error": to_wire(error)})
        with self._turn:
            while line:
                try:
                    line = line[os.write(self._out, line) :]
                except OSError:
                    # The server is gone.
                    self._loop.call_soon_threadsafe(self._over.set)
                    return


def _line(message: dict[str, Any]) -> bytes:
    text = json.dumps({"jsonrpc": "2.0"} | message, default=str, allow_nan=False, ensure_ascii=False)
    return text.encode(errors="replace") + b"\n"


def _call(method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    try:
        return method(*arguments, **named)
    except (StopIteration, SystemExit, KeyboardInterrupt) as error:
        # None of these can leave a thread.
        raise RuntimeError(f"{type(error).__name__}: {error}") from error


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
