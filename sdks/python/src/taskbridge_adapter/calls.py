"""Answers the calls to one adapter, on threads or in a loop. It must not know how messages are carried.

Methods that are not async run on threads, so that a slow one blocks no other.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .binding import Binding
from .errors import Unavailable, to_wire

# The longest message that the server reads, and the longest that it writes, in bytes.
MOST_OUT, MOST_IN = 4 * 1024 * 1024, 16 * 1024 * 1024
# Calls that run at a time. The server makes 16, and those that it has given up may still run.
THREADS = 64
# For how long `close` of the adapter may take, in seconds.
CLOSING = 1.5
PARSE_ERROR, INVALID_REQUEST = -32700, -32600

Notify = Callable[[str, dict[str, Any]], None]


class Host:
    """The server, as an adapter sees it. Every method may be called from any thread."""

    def __init__(self, params: dict[str, Any], notify: Notify) -> None:
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


class Calls:
    """The calls to one adapter. Create it within the loop that awaits it."""

    def __init__(self, kind: type, notify: Notify) -> None:
        self._kind, self._notify = kind, notify
        self._loop = asyncio.get_running_loop()
        self._binding = Binding(kind, self._run)
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="call")
        self._limit: float | None = None
        self._is_async = any(inspect.iscoroutinefunction(method) for _, method in inspect.getmembers(kind))

    async def answer(self, message: Any) -> dict[str, Any] | None:
        """Returns the reply to a message. `None` for a notification."""
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            return {"id": None, "error": {"code": INVALID_REQUEST, "message": "not a request"}}
        # A notification of the server, of which there are none that matter here.
        if "id" not in message:
            return None
        id, method, params = message["id"], message["method"], message.get("params") or {}
        try:
            return {"id": id, "result": await self._result(method, params)}
        except Exception as error:
            return {"id": id, "error": to_wire(error, method == "start" and not params.get("may_exist"))}

    async def close(self) -> None:
        """Lets the adapter close its connections."""
        try:
            await asyncio.wait_for(self._binding.close(), CLOSING)
        except Exception as error:
            print(f"closing failed: {error!r}", file=sys.stderr)
        self._pool.shutdown(wait=False)

    async def _result(self, method: str, params: dict[str, Any]) -> Any:
        match method:
            case "describe":
                return self._binding.describe()
            case "initialize":
                host = Host(params, self._notify)
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


def encode(message: dict[str, Any]) -> bytes | None:
    """Returns a message as one line. One that is too long becomes an error; `None` if it is a notification.

    A text that UTF-8 cannot say is replaced, so that a line is always valid.
    """
    try:
        line = _line(message)
        if len(line) > MOST_OUT:
            raise Unavailable(f"the reply has {len(line)} bytes, and at most {MOST_OUT} can be sent")
    except Exception as error:
        if "id" not in message:
            print(f"a notification was not sent: {error!r}", file=sys.stderr)
            return None
        line = _line({"id": message["id"], "error": to_wire(error)})
    return line


def not_json(error: Exception) -> dict[str, Any]:
    """Returns the reply to what is not JSON."""
    return {"id": None, "error": {"code": PARSE_ERROR, "message": f"not JSON: {type(error).__name__}"}}


def _line(message: dict[str, Any]) -> bytes:
    text = json.dumps({"jsonrpc": "2.0"} | message, default=str, allow_nan=False, ensure_ascii=False)
    return text.encode(errors="replace") + b"\n"


def _call(method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    try:
        return method(*arguments, **named)
    except (StopIteration, SystemExit, KeyboardInterrupt) as error:
        # None of these can leave a thread.
        raise RuntimeError(f"{type(error).__name__}: {error}") from error
