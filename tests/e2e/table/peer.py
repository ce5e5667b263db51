"""A client that runs as a program of its own and is driven line by line: see `python/drive.py` for the lines.

It must not know what a scenario wants, nor what is right.
"""

import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

# A scenario waits for jobs of a few seconds. This only ends what hangs.
SECONDS = 60
GRACE = 5


class Failed(Exception):
    """A client said no, or something was not as it should be."""


class Peer:
    """One such program. `library` is what it says of itself: the library's name and version. Once the server is `gone` that
    it talks to, it is not waited for much longer: some libraries wait for what cannot come any more."""

    def __init__(
        self,
        command: list[str],
        env: dict[str, str],
        log: IO[bytes],
        gone: Callable[[], bool] = lambda: False,
        seconds: int = SECONDS,
    ) -> None:
        self._gone, self._seconds = gone, seconds
        self._process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.library: str = self._next()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _next(self) -> Any:
        line = self._line()
        if line is None:
            self._lines.put(None)
            raise Failed(f"the client's program ended with exit code {self._process.wait()}")
        answer = json.loads(line)
        if "failed" in answer:
            raise Failed(answer["failed"])
        return answer["ok"]

    def _line(self) -> str | None:
        left, waited = float(self._seconds), time.monotonic()
        while left > 0:
            try:
                return self._lines.get(timeout=min(left, 1))
            except queue.Empty:
                now = time.monotonic()
                left, waited = left - (now - waited), now
                if self._gone():
                    left = min(left, GRACE)
        self.kill()
        raise Failed(f"no answer within {self._seconds} s")

    def ask(self, op: str, **line: Any) -> Any:
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps({"op": op, **line}) + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            # It ended, or was ended; what it says next says so.
            pass
        return self._next()

    @contextmanager
    def connected(self, accepts: bool = True) -> Iterator["Peer"]:
        """Connects to the server for as long as it is held. Questions are accepted, or declined."""
        self.ask("open", accepts=accepts)
        try:
            yield self
        except Failed:
            # What went wrong first is what counts.
            self.kill()
            raise
        self.ask("close")

    def kill(self) -> None:
        """Ends the program, by itself if it still can: it may have others to end."""
        assert self._process.stdin
        try:
            self._process.stdin.close()
            self._process.wait(GRACE)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()

    def end(self) -> None:
        """Lets the program end by itself, as its input does."""
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed("the client's program did not end") from None
