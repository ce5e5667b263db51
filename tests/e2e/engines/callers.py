"""Third-party clients that make calls while the bridge is killed under them. A start that is not answered because of
that is made again as another attempt, with a label of its own; what was accepted is followed until its result is there.

A client that fails while the bridge lived all the time has found a fault.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from bridge import Bridge
from peer import Failed, Peer
from rows import CLIENTS, LEGACY, MODERN, Client, Place

# Both generations, and in each Python and TypeScript libraries that have its tasks.
CHOSEN = {
    ("mcp1", LEGACY),
    ("mcp2", MODERN),
    ("fastmcp3", LEGACY),
    ("fastmcp4", MODERN),
    ("sdk1", LEGACY),
    ("sdk2", MODERN),
}
SPEAKERS = [client for client in CLIENTS if (client.program, client.generation) in CHOSEN]
# So many jobs of a client run at a time.
AT_ONCE = 3
# For how long a client waits for a result while the bridge lives: it only ends what hangs. An answer that cannot be handed over at once,
# because its token went away with the last bridge, waits until the engine hands the step out again; and an engine that is killed all
# the time lets some jobs wait for minutes.
SECONDS = 600
# What a client is told of a job of which nobody knows whether it was started.
UNCERTAIN = "it is uncertain whether the job started"
# A call that does not come to its end in so many lives of the bridge never will.
MOST_LIVES = 40


class Work(Protocol):
    """What a tool does, and what must come of it."""

    name: str
    # Whether the client says yes to what is asked.
    accepts: bool
    # Whether its engine knows no key for a start.
    may_be_uncertain: bool
    # Whether a job of it begins.
    begins: bool
    # Whether what a client does with it has its moment, which passes.
    hurries: bool

    def arguments(self, label: str, number: int) -> dict[str, Any]: ...
    def finish(self, peer: Peer, task: str) -> dict[str, Any]: ...
    def check(self, got: dict[str, Any], label: str, number: int) -> None: ...


@dataclass
class Call:
    number: int
    work: Work
    # Of each attempt to start it; the last is the one that was accepted.
    labels: list[str] = field(default_factory=list)
    task: str = ""
    client: str = ""
    generation: str = ""
    got: dict[str, Any] | None = None
    wrong: str = ""
    uncertain: bool = False

    @property
    def arguments(self) -> dict[str, Any]:
        return self.work.arguments(self.labels[-1], self.number % 4)


class Calls:
    """The calls that are to be made, how far they all are, and what was done to them: requests that a kill `cut` off,
    kills that were `aimed` at a reply, and when each of the `kills` was."""

    def __init__(self, works: list[Work], count: int) -> None:
        self.all = [Call(number, works[number % len(works)]) for number in range(count)]
        self.steps = 0
        self.cut = 0
        self.aimed = 0
        self.kills: list[float] = []
        self.over = threading.Event()
        self._waiting: dict[str, list[Call]] = {LEGACY: [], MODERN: []}
        for call in reversed(self.all):
            # Clients of both generations call each tool, by turns.
            around, at = divmod(call.number, len(works))
            self._waiting[(LEGACY, MODERN)[(around + at) % 2]].append(call)
        self._changed = threading.Condition()

    def take(self, generation: str) -> list[Call]:
        """A few calls whose questions are all accepted, or all declined: a client does the one or the other."""
        batch: list[Call] = []
        with self._changed:
            waiting = self._waiting[generation]
            while waiting and len(batch) < AT_ONCE:
                if batch and waiting[-1].work.accepts != batch[0].work.accepts:
                    break
                batch.append(waiting.pop())
        return sorted(batch, key=lambda call: not call.work.hurries)

    def step(self) -> None:
        """A call was accepted, or came to its end."""
        with self._changed:
            self.steps += 1
            self._changed.notify_all()

    def was_cut(self) -> None:
        with self._changed:
            self.cut += 1

    def end(self) -> None:
        with self._changed:
            self.over.set()
            self._changed.notify_all()

    def wait_for(self, steps: int) -> bool:
        """Until so many steps were made. False if all is over before that."""
        with self._changed:
            self._changed.wait_for(lambda: self.steps >= steps or self.over.is_set())
            return not self.over.is_set()


def result(peer: Peer, task: str) -> dict[str, Any]:
    """What came of a task. Some libraries wait for a minute at most, and are asked again."""
    end = time.monotonic() + SECONDS
    while True:
        try:
            got: dict[str, Any] = peer.ask("result", task=task)
            return got
        except Failed as failure:
            if "Request timed out" not in str(failure) or time.monotonic() > end:
                raise


class Caller(threading.Thread):
    """One client library in a program of its own, and the calls that it makes."""

    def __init__(self, client: Client, place: Place, env: dict[str, str], bridge: Bridge, calls: Calls) -> None:
        super().__init__(name=f"{client.label}, {client.generation}")
        self._client = client
        self._command: list[str] = getattr(place, client.kind)(client.program)
        self._command += ["--modern"] * (client.generation == MODERN) + ["--url", bridge.url]
        self._env, self._log, self._bridge, self._calls = env, place.log, bridge, calls
        self._peer: Peer | None = None
        self._life = -1
        self._accepts = True
        self.library = ""

    def run(self) -> None:
        while batch := self._calls.take(self._client.generation):
            self._answer(batch[0].work.accepts)
            for call in batch:
                call.client, call.generation = self.name, self._client.generation
            for act in (self._start, self._finish):
                for call in batch:
                    try:
                        if not call.wrong:
                            act(call)
                    except Failed as failure:
                        call.uncertain = bool(call.task) and UNCERTAIN in str(failure)
                        call.wrong = "" if call.uncertain and call.work.may_be_uncertain else str(failure)
                    self._calls.step()
        try:
            self._insist(lambda peer: peer.ask("close"))
            if self._peer:
                self._peer.end()
        except Failed:
            self._hang_up()

    def _answer(self, accepts: bool) -> None:
        """Accepts what is asked from here on, or declines it. A client keeps to the one while it is connected."""
        if accepts != self._accepts:
            self._accepts = accepts
            self._hang_up()

    def _start(self, call: Call) -> None:
        def start(peer: Peer) -> Any:
            call.labels.append(f"call-{call.number}-{len(call.labels)}")
            return peer.ask("start", tool=call.work.name, arguments=call.arguments)

        call.task = self._insist(start)["task"]

    def _finish(self, call: Call) -> None:
        def finish(peer: Peer) -> Any:
            got = call.work.finish(peer, call.task)
            # A library may call a connection that broke a result.
            call.work.check(got, call.labels[-1], call.number % 4)
            return got

        call.got = self._insist(finish)

    def _insist(self, act: Callable[[Peer], Any]) -> Any:
        """Does it with a client that is connected; again with a new connection when the bridge was killed meanwhile."""
        for _ in range(MOST_LIVES):
            try:
                return act(self._connected())
            except Failed as failure:
                if self._life == self._bridge.life:
                    # Its own complaint, or a library that waits for what does not come.
                    self._hang_up()
                    raise Failed(f"{self.name}: {failure}") from None
                self._calls.was_cut()
        raise Failed(f"{self.name}: nothing came of it in {MOST_LIVES} lives of the bridge")

    def _connected(self) -> Peer:
        if self._peer and self._life == self._bridge.life:
            return self._peer
        if not self._bridge.runs.wait(SECONDS):
            raise Failed("the bridge was not started again")
        life = self._life = self._bridge.life
        # A library may stay stuck after its connection broke, so the program is started anew, as a user would.
        self._hang_up()
        self._peer = Peer(self._command, self._env, self._log, lambda: self._bridge.life != life, SECONDS)
        self.library = self._peer.library
        self._peer.ask("open", accepts=self._accepts)
        return self._peer

    def _hang_up(self) -> None:
        peer, self._peer = self._peer, None
        if peer:
            peer.kill()
