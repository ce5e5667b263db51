"""Slurm's commands as the bridge calls them, in the place that a proxy has before other engines: it counts the calls, loses replies to
calls that were served, and refuses calls while it is told to. What it plants is told in `tests/slurm/command`. It must not know
what the calls mean.
"""

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

# How often the calls that were made are read, in seconds.
OFTEN = 0.01
# Longer than the bridge lets a command take, in seconds.
LONGEST = 5


class Shims:
    """The commands of a cluster that runs, watched by a thread until `stop`."""

    def __init__(self, folder: Path, losses: dict[str, float], seed: int, refusal: str) -> None:
        self.asked: Counter[str] = Counter()
        self.refused = 0
        self._folder = folder
        self._faults = folder / "faults"
        self._losses = losses
        self._random = random.Random(seed)
        self._refusal = refusal
        self._throttled = False
        self._strike: tuple[str, Callable[[int], None]] | None = None
        self._lock = threading.Lock()
        self._read = 0
        self._planted = 0
        self._over = threading.Event()
        # How many calls of each command there are before the next whose reply is lost.
        self._left = {name: self._gap(name) for name in losses}
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _gap(self, name: str) -> int:
        return int(self._random.expovariate(self._losses[name])) + 1

    @property
    def lost(self) -> Counter[str]:
        """The replies that were lost: those of calls that took such a fault."""
        taken: Counter[str] = Counter()
        for path in self._faults.glob("taken-*"):
            taken[path.name.split("-")[1]] += path.read_text().startswith(("lost\n", "pauses\n"))
        return taken

    @property
    def throttled(self) -> bool:
        return self._throttled

    @throttled.setter
    def throttled(self, throttled: bool) -> None:
        self._throttled = throttled
        for name in self._losses:
            if throttled:
                self._plant(f"{name}.always", f"refused\n{self._refusal}\n")
            else:
                (self._faults / f"{name}.always").unlink()

    def at_next(self, operation: str, strike: Callable[[int], None]) -> None:
        """Calls this once, when the next call of the operation was served and before its reply is passed on. The reply
        is lost then. A command has no port: it is called with 0."""
        with self._lock:
            self._strike = (operation, strike)
            self._plant(f"{operation}.000000", "pauses\n")

    def give_up(self) -> bool:
        """Takes back what `at_next` was told. False if it was too late for that."""
        with self._lock:
            if not self._strike:
                return False
            try:
                (self._faults / f"{self._strike[0]}.000000").unlink()
                self._strike = None
                return True
            except FileNotFoundError:
                pass
        # A command took it. If it was ended before it had its reply, as one that takes too long is, the moment does not come.
        end = time.monotonic() + LONGEST
        while time.monotonic() < end:
            with self._lock:
                if not self._strike:
                    return False
            time.sleep(OFTEN)
        with self._lock:
            missed, self._strike = self._strike is not None, None
            return missed

    def _plant(self, name: str, text: str) -> None:
        """A fault is there as a whole or not at all."""
        unseen = self._faults / f"new-{name}"
        unseen.write_text(text)
        os.replace(unseen, self._faults / name)

    def _watch(self) -> None:
        while not self._over.wait(OFTEN):
            self._count()
            paused = self._folder / "paused"
            if paused.exists():
                with self._lock:
                    strike, self._strike = self._strike, None
                if strike:
                    strike[1](0)
                paused.unlink()

    def _count(self) -> None:
        with (self._folder / "calls").open("rb") as calls:
            calls.seek(self._read)
            text = calls.read()
        # Whole records alone: each ends where the next begins, or where the file does.
        if not text.endswith(b"\x1f"):
            return
        self._read += len(text)
        for record in text.split(b"\x1e")[1:]:
            name = record.split(b"\x1f")[0].decode()
            self.asked[name] += 1
            self.refused += self._throttled and name in self._losses
            if name not in self._left:
                continue
            self._left[name] -= 1
            if self._left[name] == 0:
                self._left[name] = self._gap(name)
                self._planted += 1
                self._plant(f"{name}.{self._planted:06}", "lost\n")

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
