"""Slurm as an engine of the run: a real cluster whose commands lose replies, whose controller is killed, and once is away for a while;
the scripts, and what the scripts themselves wrote down of their runs.
"""

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from callers import SECONDS as PATIENCE
from callers import UNCERTAIN
from jobs import Job
from peer import SECONDS, Failed, Peer
from proxy import Proxy
from shims import Shims
from workflows import TERMINAL

SERVE = Path(__file__).resolve().parents[2] / "slurm/serve.py"
# How likely the reply to a command is lost, by what it does to lose it.
LOSSES = {"sbatch": 0.15, "scontrol": 0.15, "squeue": 0.1, "sacct": 0.1, "scancel": 0.2}
# Commands at which a kill hurts most: served, and nobody hears of it.
MOMENTS = ("sbatch", "sbatch", "scontrol")
REFUSAL = "slurm: error: Unable to contact slurm controller (connect failure)"
# The controller is killed after so many seconds, more or less, as long as there are calls.
KILLED_EVERY = 12
# For how long it is stopped once.
AWAY = int(os.environ.get("TASKBRIDGE_SLURM_AWAY", "15"))
# What is told of a job that the controller forgot in a crash, before it wrote down anything of its end, or then cancelled by itself.
FORGOTTEN = (
    "no longer knows the job",
    "Slurm itself cancelled it",
    "how the first run ended is not known",
    "by Slurm after its controller broke down",
)
# How many jobs each kill may make it forget: those of the seconds since it wrote them down last.
FORGOTTEN_EACH = 3
# What is told of those among them that no run may ever belong to.
NEVER = "its script never began and cannot any more"

# Each run of a script leaves a file of its own: what it was called with, and how it ended.
SCRIPT = r"""#!/bin/bash
#SBATCH --mem-per-cpu=50M
label=$1 number=$2
run=$RUNS/$label/{name}.$SLURM_JOB_ID.$$
mkdir -p "$RUNS/$label"
echo BEGUN >"$run"
said() {{ printf '{{"label": "%s", "number": %s}}' "$label" "$number"; }}
ended() {{ {{ echo "$1"; said; }} >"$run.new" && mv "$run.new" "$run"; }}
{body}
"""
HAND_BACK = "said >out.json; ended SUCCEEDED"


def until(peer: Peer, task: str, words: str = "") -> dict[str, Any]:
    """Looks until the task has ended, or this is said of it. A controller that is killed all the time lets it take a while."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        seen: dict[str, Any] = peer.ask("look", task=task)
        if seen["status"] in TERMINAL or words and words in (seen.get("message") or ""):
            return seen
        time.sleep(0.3)
    raise Failed(f"neither {words!r} nor an end was seen: {seen}")


def result(peer: Peer, task: str) -> dict[str, Any]:
    """What came of a task. Some libraries wait for a minute at most, which is less than the controller is away: then one looks
    until the task has ended, and they are asked again."""
    while True:
        try:
            got: dict[str, Any] = peer.ask("result", task=task)
            return got
        except Failed as failure:
            if "Request timed out" not in str(failure):
                raise
            until(peer, task)


def was_forgotten(said: str) -> bool:
    return any(words in said for words in FORGOTTEN)


@dataclass(frozen=True)
class Script:
    """One tool. Those that succeed hand back what they were called with."""

    name: str
    body: str
    status: str = "SUCCEEDED"
    # What a failure tells.
    says: str = ""
    target: str = ""
    # The tasks of its array.
    children: int = 0
    backend: str = "slurm"
    # Whether it begins at all.
    begins: bool = True
    # More parameters of its tool.
    parameters: str = ""
    # Whether its file is not there.
    is_missing: bool = False
    # Whether the client says yes to what is asked.
    accepts: bool = True
    # A controller that is killed can forget a job; one that is left in peace cannot.
    may_be_uncertain: bool = True
    # What was told as lost, by label, and whether it was told that it never began.
    forgotten: dict[str, bool] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return SCRIPT.format(name=self.name, body=self.body)

    def arguments(self, label: str, number: int) -> dict[str, Any]:
        return {"label": label, "number": number}

    def finish(self, peer: Peer, task: str) -> dict[str, Any]:
        try:
            return self.cancelled(peer, task) if self.status == "CANCELLED" else result(peer, task)
        except Failed as failure:
            # Some libraries make an error of a task that broke.
            if self.may_be_uncertain and was_forgotten(str(failure)):
                return {"text": str(failure), "structured": None, "error": True, "status": "failed"}
            raise

    def cancelled(self, peer: Peer, task: str, when: str = "running") -> dict[str, Any]:
        """Cancels a task once this is said of it. Whoever does it again, because the bridge was killed, finds what there is."""
        seen = until(peer, task, when)
        if seen["status"] not in TERMINAL:
            peer.ask("cancel", task=task)
            seen = until(peer, task)
        return {"text": seen.get("message") or "", "structured": None, "error": True, "status": seen["status"]}

    def never_began(self, got: dict[str, Any]) -> bool:
        """Whether it was told that nothing of it ran. Of an array one task may have, and the next not."""
        parts = ((got["structured"] or {}).get("tasks") or []) if self.children else [got]
        return bool(parts) and all(NEVER in json.dumps(part) for part in parts)

    def check(self, got: dict[str, Any], label: str, number: int) -> None:
        """Fails unless this is what a call with this label must come to."""
        said = json.dumps(got)
        if self.may_be_uncertain and was_forgotten(said):
            self.forgotten[label] = self.never_began(got)
            raise Failed(f"{UNCERTAIN}: the controller forgot it in a crash")
        if self.status == "SUCCEEDED":
            right = got["structured"] == {"label": label, "number": number} and not got["error"]
        elif self.status == "CANCELLED":
            right = got["status"] == "cancelled"
        else:
            right = got["error"] and self.says in json.dumps(got)
        if not right:
            raise Failed(f"the result of {self.name} for {label}, {number} is {got}")


def scripts() -> list[Script]:
    element = 'if [ "$TASKBRIDGE_ELEMENT" = bad ]; then ended FAILED; echo "no such molecule" >&2; exit 4; fi; ended SUCCEEDED'
    big = f"seq 1 200000; {HAND_BACK}"
    return [
        Script("succeeds", f"echo working; {HAND_BACK}"),
        Script("takes_a_while", f"sleep 2; {HAND_BACK}"),
        Script("fails", "ended FAILED; echo the tray is empty >&2; exit 3", status="FAILED", says="the tray is empty"),
        Script("is_killed", "ended FAILED; kill -SEGV $$", status="FAILED", says="SIGSEGV"),
        Script("talks", big),
        Script("asks", HAND_BACK, target='approval = "Do you approve of this?"'),
        Script("is_cancelled", "ended CANCELLED; sleep 3600", status="CANCELLED"),
        Script("array", element, status="FAILED", says="no such molecule", children=3,
               target='array = { parameter = "molecules" }'),
    ]


class Slurm:
    # What the cluster is started with, how it is called, and whether it is left in peace.
    options = ["--accounting", "--cpus", "100"]
    losses = LOSSES
    peaceful = False

    def __init__(self, _installed: Path, work: Path, log: IO[bytes], seed: int) -> None:
        self.moments = MOMENTS
        self._work = work
        self._runs = work / "runs"
        self._runs.mkdir()
        self._process = subprocess.Popen(
            [sys.executable, "-B", str(SERVE), *self.options, *self.more_options()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert self._process.stdout
        word, _, told = self._process.stdout.readline().strip().partition(" ")
        if word != "ready":
            raise Failed(f"the cluster did not start: {told}")
        self.told = json.loads(told)
        self._folder = Path(self.told["folder"])
        self._shims = Shims(self._folder, self.losses, seed, REFUSAL)
        self.proxies: dict[str, Shims | Proxy] = {"slurm": self.between(seed)}
        self.works: list[Script] = [replace(script, may_be_uncertain=not self.peaceful) for script in self.scripts()]
        self.killed = 0
        self._random = random.Random(seed)
        self._over = threading.Event()
        self._somebody = threading.Thread(target=self._disturb)
        if not self.peaceful:
            self._somebody.start()

    def more_options(self) -> list[str]:
        return []

    def between(self, _seed: int) -> "Shims | Proxy":
        """What is between the bridge and the cluster."""
        return self._shims

    def scripts(self) -> list[Script]:
        return scripts()

    def _order(self, order: str) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline().strip()
        if said != "ok":
            raise Failed(f"{order}: {said}")

    def _disturb(self) -> None:
        """The controller is killed now and then and started again; the third time it is stopped, and away for a while."""
        while not self._over.wait(KILLED_EVERY * (0.5 + self._random.random())):
            away = self.killed == 2
            self._order("stop slurmctld" if away else "kill slurmctld")
            self._over.wait(AWAY if away else self._random.random())
            self._order("start slurmctld")
            self.killed += 1

    def backend(self, name: str, more: str) -> str:
        return (
            f'[backends.{name}]\nkind = "slurm"\ncommands_dir = "{self._folder}/bin"\njobs_dir = "{self._work}/{name}"\n'
            f'env = {{ RUNS = "{self._runs}" }}\n{more}'
        )

    def config(self) -> str:
        """The backend and the tools of the bridge."""
        parts = [self.backend("slurm", 'command_timeout = "2s"\nlook_every = "1s"\n')]
        for script in self.works:
            path = self._work / f"{script.name}.sh"
            if not script.is_missing:
                path.write_text(script.text)
                path.chmod(0o755)
            handed = "" if script.status != "SUCCEEDED" else 'result = "out.json"\n'
            parts.append(
                f'[tools.{script.name}]\nbackend = "{script.backend}"\ndescription = "Runs {script.name}."\n'
                # How long a start that nobody can make sure of is tried.
                'start_within = "3m"\nsettle_window = "3m"\n'
                f'parameters.label = {{ type = "string" }}\nparameters.number = {{ type = "integer" }}\n'
                + ('parameters.molecules = { type = "array", items = { type = "string" }, default = ["water", "bad", "ice"] }\n' * bool(script.children))
                + script.parameters
                + f'[tools.{script.name}.target]\nscript = "{path}"\nargs = ["{{{{ label }}}}", "{{{{ number }}}}"]\n'
                f"{handed}{script.target}\n"
            )
        return "".join(parts)

    def jobs(self) -> Iterator[Job]:
        """What was run, as the scripts themselves wrote it down. The tasks of an array stand for one job, and one each. One that was
        cancelled while it waited wrote nothing, and is of no call that can be told."""
        arrays = {script.name for script in self.works if script.children}
        for folder in sorted(self._runs.iterdir()):
            label, found = folder.name, sorted(folder.iterdir())
            for run in found:
                name = run.name.partition(".")[0]
                status, _, said = run.read_text().partition("\n")
                if name in arrays:
                    yield Job("element", label, status, None, run.name)
                    continue
                says = json.loads(said) if status == "SUCCEEDED" else None
                yield Job(name, label, status.strip(), says, run.name)
            if name in arrays:
                yield Job(name, label, "FAILED", None, f"array {label}")

    def complaints(self) -> list[str]:
        """Keys of which more than one job was released: those that have begun."""
        self._leave_in_peace()
        text = self._say("sacct", "-n", "-P", "-X", "-a", "-S", "1970-01-02", "-o", "JobName,JobID,Start,State")
        rows = [line.split("|") for line in text.splitlines()]
        begun = {(name, job.partition("_")[0]) for name, job, start, _ in rows if start not in ("Unknown", "None")}
        released = Counter(name for name, _ in begun if name.startswith("tb-"))
        if not self.peaceful:
            print(f"{self.killed:6} times the controller was killed (-9) and started again, once stopped for {AWAY} s")
        forgotten = {label: never for script in self.works for label, never in script.forgotten.items()}
        print(f"{len(forgotten):6} jobs that the controller forgot in a crash, told as lost: {', '.join(forgotten)}")
        began = [label for label, never in forgotten.items() if never and (self._runs / label).exists()]
        print(f"{len(released):6} keys with a job that was released")
        faults = [f"{count} jobs of the key {name} were released" for name, count in released.items() if count > 1]
        faults += [f"{label} was told as never begun, and ran" for label in began]
        if len(forgotten) > self.killed * FORGOTTEN_EACH:
            faults.append(f"{len(forgotten)} jobs were told as forgotten, by a controller that was killed {self.killed} times")
        return faults

    def _say(self, name: str, *arguments: str) -> str:
        environment = {**os.environ, "SLURM_CONF": str(self._folder / "slurm.conf")}
        for _ in range(30):
            done = subprocess.run([name, *arguments], env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
            if done.returncode == 0:
                return done.stdout
            time.sleep(1)
        raise Failed(f"{name} fails: {done.stderr}")

    def _leave_in_peace(self) -> None:
        self._over.set()
        if not self.peaceful:
            self._somebody.join()

    def stop(self) -> None:
        """The cluster ends with its input."""
        self._leave_in_peace()
        self._shims.stop()
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(SECONDS)
