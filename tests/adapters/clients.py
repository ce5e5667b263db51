#!/usr/bin/env python3
"""Third-party clients over RQ by the example adapter, while the bridge and the adapter are killed by turns. Afterwards it
counts in Redis what was started.

    clients.py --packages FOLDER --server PROGRAM --python PROGRAM [--calls N] [--kills N] [--restarts N] [--seed N]

`--kills` is how often each of the two is killed, and `--restarts` how often Redis is killed and started again, between
jobs: a worker of RQ loses the job that it holds when Redis dies. Exits with 1 unless each accepted call ran once and has its own result.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from rq.suspension import resume, suspend
from stage import EXAMPLES, ROOT, Processes, RedisServer, until

sys.path += [str(ROOT / "tests/e2e/engines"), str(ROOT / "tests/e2e/table")]

from bridge import Bridge, free_port  # noqa: E402
from callers import SECONDS, SPEAKERS, Caller, Calls  # noqa: E402
from jobs import Job, Verdict, judge  # noqa: E402
from peer import Failed, Peer  # noqa: E402
from redis import Redis  # noqa: E402
from rows import Place  # noqa: E402

CONFIG = """
[server]
listen = "127.0.0.1:{port}"
max_polls_per_second = 1000
# Each call is answered with a task, however soon its job ends.
quick_wait = "0s"

[auth]
single_user = true

[lifetime]
min_ttl = "1h"

[reconciler]
lease = "6s"
quickest_look = "200ms"
slowest_look = "2s"

[adapters.rq]
command = [{command}]

[backends.rq]
kind = "rq"
url = "{url}"
"""
TOOL = """
[tools.{name}]
backend = "rq"
description = "Runs {name}."
target = {{ function = "jobs.{name}" }}
parameters.label = {{ type = "string" }}
"""
WORKERS = 4


@dataclass(frozen=True)
class Work:
    """One function of examples/adapters/rq/jobs.py, and what a call of it must come to."""

    name: str
    status: str
    accepts: bool = True
    may_be_uncertain: bool = False
    begins: bool = True
    hurries: bool = False
    children: int = 0

    def arguments(self, label: str, number: int) -> dict:
        return {"label": label}

    def finish(self, peer: Peer, task: str) -> dict:
        if self.status != "CANCELLED":
            return {**peer.ask("result", task=task)}
        seen = self.look(peer, task, ("working",), "row")
        if seen["status"] == "working":
            peer.ask("cancel", task=task)
            seen = self.look(peer, task)
        return {"text": seen.get("message") or "", "structured": None, "error": True, "status": seen["status"]}

    def look(self, peer: Peer, task: str, states=(), message="") -> dict:
        """Polls until the task has ended, or is in one of these states with this message."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            seen = peer.ask("look", task=task)
            if seen["status"] in ("completed", "failed", "cancelled"):
                return seen
            if seen["status"] in states and message in (seen.get("message") or ""):
                return seen
            time.sleep(0.2)
        raise Failed(f"{self.name} did not end: {seen}")

    def check(self, got: dict, label: str, number: int) -> None:
        """Fails unless this is what a call with this label must come to."""
        match self.status:
            case "SUCCEEDED":
                right = got["structured"] == {"label": label, "counted": 3} and not got["error"]
            case "CANCELLED":
                right = got["status"] == "cancelled"
            case _:
                right = got["error"] and f"no data for {label}" in json.dumps(got)
        if not right:
            raise Failed(f"the result of {self.name} for {label} is {got}")


WORKS = [Work("count", "SUCCEEDED"), Work("pause", "SUCCEEDED"), Work("fail", "FAILED"), Work("hold", "CANCELLED")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", type=Path, required=True, help="where the clients are installed")
    parser.add_argument("--server", type=Path, required=True)
    parser.add_argument("--python", type=Path, required=True, help="the Python that has RQ and the SDK")
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--restarts", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tb-adapter-") as folder:
        work, processes = Path(folder), Processes(folder)
        with (work / "log").open("ab") as log:
            try:
                verdict = run(options, work, processes, log)
            finally:
                processes.stop()
        if not verdict.holds:
            lines = [line for line in (work / "log").read_text(errors="replace").splitlines() if " INFO " not in line]
            print(*lines[-40:], sep="\n", file=sys.stderr)
    return 0 if verdict.holds else 1


def run(options, work: Path, processes: Processes, log) -> Verdict:
    began = time.monotonic()
    server = RedisServer(processes)
    for number in range(WORKERS):
        command = [options.python, "-m", "rq.cli", "worker", "--url", server.url, "--path", EXAMPLES / "rq"]
        # So they wait for a job for a second at a time, and see soon that they are suspended.
        command += ["--worker-ttl", "16"]
        processes.start(f"worker-{number}", *command, again=True)
    command = ", ".join(json.dumps(str(word)) for word in (options.python, EXAMPLES / "rq" / "rq_adapter.py"))
    port, config = free_port(), work / "taskbridge.toml"
    tools = "".join(TOOL.format(name=each.name) for each in WORKS)
    config.write_text(CONFIG.format(port=port, command=command, url=server.url) + tools)
    env = {**os.environ, "XDG_STATE_HOME": str(work / "state")}
    place = Place(options.packages.absolute(), options.server.absolute(), work, log)
    bridge = Supervised(place.server, config, port, env, log)
    calls = Calls(WORKS, options.calls)
    callers = [Caller(client, place, env, bridge, calls) for client in SPEAKERS]
    striker = Striker(bridge, calls, server, options)
    for thread in (*callers, striker):
        thread.start()
    for thread in callers:
        thread.join()
    calls.end()
    striker.join()
    bridge.stop()
    with Redis.from_url(server.url, decode_responses=True) as redis:
        jobs = list(ran(redis))
    verdict = judge(calls.all, jobs)
    if (bridge.life, striker.adapters, striker.restarts) != (options.kills, options.kills, options.restarts):
        verdict.wrong.append("less was killed than was to be: make more calls")
    for number, what in (
        (verdict.accepted, f"calls accepted, of {len(WORKS)} kinds, by {len(SPEAKERS)} clients"),
        (verdict.attempts - verdict.accepted, "starts that the bridge did not live to answer, made again"),
        (len(jobs), "runs in RQ"),
        (bridge.life, "kills of the bridge (-9)"),
        (striker.adapters, "kills of the adapter (-9)"),
        (striker.restarts, "restarts of Redis (-9)"),
        (len(verdict.doubles), "doubles"),
        (len(verdict.lost), "lost"),
        (len(verdict.strays), "jobs of no call"),
        (len(verdict.wrong), "wrong"),
    ):
        print(f"{number:6} {what}")
    print(f"{time.monotonic() - began:6.0f} s")
    for fault in (*verdict.doubles, *verdict.lost, *verdict.strays, *verdict.wrong):
        print(f"FAILED {fault}")
    return verdict


class Supervised(Bridge):
    """A bridge that is started again when it ends, as by a supervisor: one whose only backend does not answer at its start
    ends."""

    def _start(self) -> None:
        for _ in range(20):
            try:
                return super()._start()
            except Failed as failure:
                last = failure
                time.sleep(1)
        raise last


class Striker(threading.Thread):
    """Kills the bridge and the adapter by turns, and Redis now and then, at random moments between the calls."""

    def __init__(self, bridge: Bridge, calls: Calls, server: RedisServer, options) -> None:
        super().__init__(daemon=True)
        self._bridge, self._calls, self._random = bridge, calls, random.Random(options.seed)
        self._server = server
        self.adapters = self.restarts = 0
        # The last calls have time to end well, so that no kill comes too late.
        most = 9 * options.calls // 5
        kinds = [self._kill_adapter, self._kill_bridge] * options.kills
        for _ in range(options.restarts):
            kinds.insert(self._random.randrange(len(kinds) + 1), self._restart_redis)
        self._steps = list(zip(sorted(self._random.randrange(most) for _ in kinds), kinds, strict=True))

    def run(self) -> None:
        for step, strike in self._steps:
            after, pause = 0.5 * self._random.random(), 0.5 * self._random.random()
            if not self._calls.wait_for(step):
                return
            time.sleep(after)
            strike(pause)

    def _kill_bridge(self, pause: float) -> None:
        self._bridge.kill()
        self._bridge.start_again(pause)

    def _restart_redis(self, pause: float) -> None:
        with Redis.from_url(self._server.url, decode_responses=True) as redis:
            suspend(redis)
            # Those that hold a job end it first.
            until("all workers are suspended", lambda: suspended(redis) >= WORKERS, SECONDS)
        self._server.kill()
        time.sleep(pause)
        self._server.start()
        with Redis.from_url(self._server.url) as redis:
            resume(redis)
        self.restarts += 1

    def _kill_adapter(self, pause: float) -> None:
        """Kills the adapter of the bridge that runs, which starts another."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if adapters := [pid for pid in children(self._bridge.pid) if b"rq_adapter.py" in cmdline(pid)]:
                # The last is the program itself, if another starts it.
                os.kill(adapters[-1], signal.SIGKILL)
                self.adapters += 1
                return
            time.sleep(0.05)


def suspended(redis: Redis) -> int:
    """Returns how many workers take no job."""
    workers = (redis.hgetall(key) for key in redis.smembers("rq:workers"))
    return sum(worker.get("state") == "suspended" and Path(f"/proc/{worker['pid']}").exists() for worker in workers)


def children(parent: int) -> list[int]:
    """Returns the processes below another one, the nearest first."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(path.parent.name))
    return found + [below for child in found for below in children(child)]


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def ran(redis: Redis):
    """Returns each run, as the functions themselves counted them."""
    for entry, count in redis.hgetall("began").items():
        name, _, label = entry.partition(" ")
        status = next(work.status for work in WORKS if work.name == name)
        for number in range(int(count)):
            yield Job(name, label, status, None, f"{entry} ({number + 1} of {count})")


if __name__ == "__main__":
    sys.exit(main())
