"""The server's side of the protocol, for the tests of an adapter: starts the program and makes calls.

with Program([sys.executable, "my_adapter.py"], config={"url": ".."}) as program:
    handle = program.start({"function": "reports.build"}, {"month": "2026-11"})
    assert program.wait(handle)["state"] == {"succeeded": {..}}
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import subprocess
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

# How long something may take that must happen, in seconds: machines that run tests are busy.
SECONDS = 120


class CallFailed(Exception):
    """The error that the program answered with. `kind` is its kind, such as `rejected`; empty for protocol errors."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(error.get("message"))
        self.error = error
        self.kind = (error.get("data") or {}).get("kind", "")


class Program:
    """An adapter that runs as a child process, and its connection. Calls may be made from several threads."""

    def __init__(
        self,
        command: Sequence[str],
        config: Mapping[str, Any] | None = None,
        secrets: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        self.notifications: list[dict[str, Any]] = []
        self.process = subprocess.Popen(list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
        self._ids, self._turn = itertools.count(1), threading.Lock()
        self._waiting: dict[int, Future[Any]] = {}
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self.initialized: dict[str, Any] = self.call(
                "initialize",
                {
                    "protocol": 1,
                    "name": "test",
                    "config": dict(config or {}),
                    "secrets": dict(secrets or {}),
                    "call_limit_ms": SECONDS * 1000,
                    "state_dir": os.devnull,
                    "config_dir": os.getcwd(),
                },
            )
        except BaseException:
            self.kill()
            raise

    def _read(self) -> None:
        assert self.process.stdout
        with self.process.stdout as lines:
            for line in lines:
                self._take(json.loads(line))
        with self._turn:
            left, self._waiting = self._waiting, {}
        for future in left.values():
            future.set_exception(EOFError("the program has ended"))

    def _take(self, message: dict[str, Any]) -> None:
        with self._turn:
            future = self._waiting.pop(message.get("id") or 0, None)
        if future is None:
            self.notifications.append(message)
        elif "error" in message:
            future.set_exception(CallFailed(message["error"]))
        else:
            future.set_result(message["result"])

    def begin(self, method: str, params: Mapping[str, Any] | None = None) -> Future[Any]:
        """Sends a call, and returns the future of its result."""
        future: Future[Any] = Future()
        assert self.process.stdin
        with self._turn:
            id = next(self._ids)
            self._waiting[id] = future
            line = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": dict(params or {})})
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        return future

    def call(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Makes a call. Returns its result, or raises `CallFailed`."""
        return self.begin(method, params).result(SECONDS)

    def start(
        self, target: Mapping[str, Any], arguments: Mapping[str, Any], key: str | None = None, may_exist: bool = False
    ) -> str:
        """Starts a job, under a new key if none is given. Returns its handle."""
        return str(self.call("start", spec(target, arguments, key, may_exist))["handle"])

    def find(self, key: str, target: Mapping[str, Any] | None = None) -> Any:
        """Searches for the job of a key."""
        return self.call("find", spec(target or {}, {}, key, may_exist=True))

    def observe(self, *handles: str) -> list[dict[str, Any]]:
        """Polls jobs once."""
        jobs = [{"handle": handle, "watched": True, "age_ms": 600_000} for handle in handles]
        return list(self.call("observe_all", {"group": "", "jobs": jobs}))

    def wait(self, handle: str, *states: str) -> dict[str, Any]:
        """Polls a job until it is in one of these states, or has ended. Returns the observation."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            seen = self.observe(handle)[0]
            if "state" in seen and (state_of(seen) in states or state_of(seen) not in ("queued", "running")):
                return seen
            time.sleep(0.02)
        raise TimeoutError(f"{handle} is {seen}")

    def kill(self) -> None:
        """Ends the program as `kill -9` does."""
        self.process.kill()
        self._end()

    def stop(self) -> int:
        """Ends the program as the server does. Returns its exit code."""
        self.call("shutdown")
        assert self.process.stdin
        self.process.stdin.close()
        return self._end()

    def _end(self) -> int:
        code = self.process.wait(SECONDS)
        for stream in (self.process.stdin, self.process.stderr):
            if stream:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass
        return code

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop()


def fresh_key() -> str:
    """Returns a new key of a job."""
    return "tb-" + base64.b32encode(os.urandom(16)).decode().rstrip("=").lower()


def spec(
    target: Mapping[str, Any], arguments: Mapping[str, Any], key: str | None = None, may_exist: bool = False
) -> dict[str, Any]:
    """Returns the params of `start` and `find`."""
    return {
        "key": key or fresh_key(),
        "uuid": str(uuid.uuid4()),
        "target": dict(target),
        "arguments": dict(arguments),
        "files": [],
        "may_exist": may_exist,
    }


def state_of(observation: Mapping[str, Any]) -> str:
    """Returns the word of a state, such as `succeeded`."""
    state = observation["state"]
    return state if isinstance(state, str) else str(next(iter(state)))
