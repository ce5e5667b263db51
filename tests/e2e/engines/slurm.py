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

import slurm_records as records
from callers import SECONDS as PATIENCE
from callers import UNCERTAIN, Call, Calls, result
from jobs import Job, Verdict
from peer import SECONDS, Failed, Peer
from proxy import Proxy
from shims import Shims
from workflows import TERMINAL, read

SERVE = Path(__file__).resolve().parents[2] / "slurm/serve.py"
# How likely the reply to a command is lost, by what it does to lose it.
LOSSES = {"sbatch": 0.15, "scontrol": 0.15, "squeue": 0.1, "sacct": 0.1, "scancel": 0.2}
# Commands at which a kill hurts most: served, and nobody hears of it.
MOMENTS = ("sbatch", "sbatch", "scontrol")
REFUSAL = "slurm: error: Unable to contact slurm controller (connect failure)"
# The controller is killed after so many seconds, more or less, as long as there are calls.
KILLED_EVERY = 12
# So many times at first it is sooner, so that a short run is not over before them. The third time it is stopped.
SOONER, SOON = 4, 4
STOPPED_AT = 2
# For how long it is stopped once.
AWAY = int(os.environ.get("TASKBRIDGE_SLURM_AWAY", "15"))
# A run of so many calls must have so many kills of it, and one stop; a shorter one fewer kills.
CALLS, KILLS = 24, 3
# What is told of a job that the controller forgot in a crash, before it wrote down anything of its end, or then cancelled by itself.
FORGOTTEN = (
    "no longer knows the job",
    "by Slurm itself",
    "the outcome of the first run is unknown",
    "from Slurm after a crash of its controller",
    "showed the job as running until its time limit",
    records.NO_TRACE,
)
# How many jobs each kill may make it forget: those of the seconds since it wrote them down last.
FORGOTTEN_EACH = 3
# What is told of those among them that no run may ever belong to.
NEVER = "the script never began and no longer can"

# What Slurm says of a job that it can never release (22.05): its controller was killed and restored it as one whose number in
# the accounting database is on its way, and nothing asks for that number again.
NUMBERLESS = "the DB index is being set"

# How long after the last submission the controller is still killed.
PEACE_AFTER = 45

# How long starts that nobody waits for any more may take to end.
ENDING = 30

# Each run of a script leaves a file of its own: what it was called with, and how it ended.
SCRIPT = r"""#!/bin/bash
#SBATCH --mem-per-cpu=50M
label=$1 number=$2
run=$RUNS/$label/{name}.$SLURM_JOB_ID.$$.$TASKBRIDGE_ELEMENT
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


def was_forgotten(said: str) -> bool:
    return any(words in said for words in FORGOTTEN)


@dataclass(frozen=True)
class Script:
    """One tool. Those that succeed hand back what they were called with."""

    name: str
    body: str
    status: str = "SUCCEEDED"
    # What its result tells.
    says: tuple[str, ...] = ()
    # What its log ends with.
    log: str = ""
    target: str = ""
    # The tasks of its array.
    children: int = 0
    backend: str = "slurm"
    # Whether it begins at all.
    begins: bool = True
    # Whether what a client does with it has its moment, which passes.
    hurries: bool = False
    # More parameters of its tool.
    parameters: str = ""
    # Whether its file is not there.
    is_missing: bool = False
    # Whether the client says yes to what is asked.
    accepts: bool = True
    # A controller that is killed can forget a job; one that is left in peace cannot.
    may_be_uncertain: bool = True
    # What was told as lost, by label: in which words, and those of them that were told to have never begun.
    forgotten: dict[str, str] = field(default_factory=dict)
    never: set[str] = field(default_factory=set)
    # Labels of jobs that Slurm could not release, of all scripts.
    numberless: set[str] = field(default_factory=set)

    @property
    def text(self) -> str:
        return SCRIPT.format(name=self.name, body=self.body)

    def arguments(self, label: str, number: int) -> dict[str, Any]:
        return {"label": label, "number": number}

    def finish(self, peer: Peer, task: str) -> dict[str, Any]:
        try:
            got = self.cancelled(peer, task) if self.status == "CANCELLED" else result(peer, task)
            if self.log and not got["error"]:
                got["log"] = read(peer, f"taskbridge://tasks/{task}/log")
            return got
        except Failed as failure:
            # Some libraries make an error of a task that broke.
            if self.may_be_uncertain and (was_forgotten(str(failure)) or self.numberless):
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
        if label in self.numberless:
            raise Failed(f"{UNCERTAIN}: Slurm could not release it after a crash of the controller")
        if self.may_be_uncertain and was_forgotten(said):
            self.forgotten[label] = said
            if self.never_began(got):
                self.never.add(label)
            raise Failed(f"{UNCERTAIN}: the controller forgot it in a crash")
        if self.status == "SUCCEEDED":
            right = got["structured"] == {"label": label, "number": number} and not got["error"] and self.is_told(said)
            right = right and got.get("log", "").endswith(self.log)
        elif self.status == "CANCELLED":
            right = got["status"] == "cancelled"
        else:
            right = got["error"] and self.is_told(said)
        if not right:
            raise Failed(f"the result of {self.name} for {label}, {number} is {got}")

    def is_told(self, said: str) -> bool:
        return all(words in said for words in self.says)


def scripts() -> list[Script]:
    element = 'if [ "$TASKBRIDGE_ELEMENT" = bad ]; then ended FAILED; echo "no such molecule" >&2; exit 4; fi; ended SUCCEEDED'
    big = f"seq 1 200000; {HAND_BACK}"
    return [
        Script("succeeds", f"echo working; {HAND_BACK}", says=("The standard output", "working")),
        Script("takes_a_while", f"sleep 2; {HAND_BACK}"),
        Script("fails", "ended FAILED; echo the tray is empty >&2; exit 3", status="FAILED", says=("exit code 3", "the tray is empty")),
        Script("is_killed", "ended FAILED; kill -SEGV $$", status="FAILED", says=("SIGSEGV",)),
        Script("talks", big, says=("The end of the standard output", "199999\\n200000"), log="199999\n200000\n"),
        Script("asks", HAND_BACK, target='approval = "Do you approve of this?"'),
        Script("is_cancelled", "ended CANCELLED; sleep 3600", status="CANCELLED"),
        Script("array", element, status="FAILED", says=("2 of 3 tasks succeeded, 1 failed", "exit code 4", "no such molecule"), children=3,
               # A task that its node did not launch, since it knew another job of that number, is shown as running for as long as this.
               target='array = { parameter = "molecules" }\nresources = { time = "2" }'),
    ]


class Slurm:
    # How many there are over one store.
    bridges = 1
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
        self._numberless: set[str] = set()
        self.works: list[Script] = [
            replace(script, may_be_uncertain=not self.peaceful, numberless=self._numberless) for script in self.scripts()
        ]
        self.killed = 0
        self.stopped = 0
        self._broke: list[str] = []
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
        """From the first job on, the controller is killed now and then and started again; the third time it is stopped, and away for
        a while. It has peace when nothing has been submitted for a while: only one that lives notices a script that a node never began."""
        try:
            while not self._shims.asked["sbatch"] and not self._over.wait(0.1):
                pass
            asked, since = 0, time.monotonic()
            while not self._over.wait(self._pause()):
                if asked != self._shims.asked["sbatch"]:
                    asked, since = self._shims.asked["sbatch"], time.monotonic()
                if time.monotonic() - since > PEACE_AFTER:
                    self._cancel_numberless()
                    continue
                away = self.killed == STOPPED_AT and not self.stopped
                self._order("stop slurmctld" if away else "kill slurmctld")
                self._over.wait(AWAY if away else self._random.random())
                self._order("start slurmctld")
                self.stopped += away
                self.killed += not away
        except Exception as error:  # Whatever it is, nobody else would hear of it.
            self._broke.append(f"nobody killed the controller any more: {error!r}")

    def _cancel_numberless(self) -> None:
        """Cancels jobs that Slurm can never release, as an administrator would. A change that changes nothing meets the same refusal
        as a release, which must not be made here."""
        held = [row.split() for row in self._say("squeue", "-h", "-t", "PENDING", "-o", "%i %j %r").splitlines()]
        labels = {folder.name: label for label, all_of in records.folders(self._work).items() for folder in all_of}
        for job, name, reason in held:
            if reason != "JobHeldUser" or name not in labels:
                continue
            done = self._run("scontrol", "update", f"JobId={job}", "Nice=0")
            if NUMBERLESS in done.stderr:
                self._numberless.add(labels[name])
                self._say("scancel", job)

    def _pause(self) -> float:
        if self.killed + self.stopped < SOONER:
            return SOON * (0.8 + 0.4 * self._random.random())
        return KILLED_EVERY * (0.5 + self._random.random())

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

    def post_to(self, _hooks: list[str]) -> None:
        """Slurm posts nothing."""

    def faults(self) -> list[tuple[int, str]]:
        """What else broke, which `complaints` counts."""
        return []

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

    def complaints(self, calls: Calls, verdict: Verdict) -> list[str]:
        """What Slurm's own records have against what was told, and what did not break that was to."""
        self._leave_in_peace()
        made = calls.all
        found = records.rows(self._say(*records.ASKED))
        count = records.released(found)
        print(f"{len(count):6} keys with a job that was released")
        faults = [f"{many} jobs of the key {name} were released" for name, many in count.items() if many > 1]
        forgotten = {label: said for script in self.works for label, said in script.forgotten.items()}
        # The accounting hears of no job that the controller forgets at once, even if it ran.
        least = sum(bool(call.task) for call in made) if self.peaceful else 1
        if len(count) < least:
            faults.append(f"the accounting has {len(count)} keys with a job that began, of {len(made)} calls")
        faults += self._elements()
        return faults + (self._left(made) if self.peaceful else self._disturbed(made, verdict, forgotten, found))

    def _elements(self) -> list[str]:
        """Tasks of arrays that ran twice, by their elements."""
        arrays = {script.name for script in self.works if script.children}
        ran = Counter((run.parent.name, run.name.rpartition(".")[2]) for run in self._runs.glob("*/*") if run.name.partition(".")[0] in arrays)
        return [f"{many} tasks of {label} were for {element!r}" for (label, element), many in ran.items() if many > 1]

    def _disturbed(self, calls: list[Call], verdict: Verdict, forgotten: dict[str, str], found: list[records.Row]) -> list[str]:
        """Of a cluster whose controller is killed: jobs that were told as lost without need, and kills that did not happen."""
        print(f"{self.killed:6} times the controller was killed (-9) and started again, {self.stopped} times stopped for {AWAY} s")
        print(f"{len(forgotten):6} jobs that the controller forgot in a crash, told as lost: {', '.join(forgotten)}")
        print(f"{len(self._numberless):6} jobs that the controller could not release after a crash: {', '.join(sorted(self._numberless))}")
        never = {label for script in self.works for label in script.never}
        faults = list(self._broke)
        faults += [f"{label} was told as never begun, and ran" for label in sorted(never) if (self._runs / label).exists()]
        # Slurm finds every start by its name.
        faults += [f"{label} was told as uncertain" for label in verdict.uncertain if label not in forgotten.keys() | self._numberless]
        log = (self._folder / "log/slurmctld").read_text(errors="replace")
        faults += records.unexcused(forgotten, log, found, self._work)
        if len(self._numberless) > self.killed:
            faults.append(f"{len(self._numberless)} jobs could not be released, by a controller that was killed {self.killed} times")
        if len(forgotten) > self.killed * FORGOTTEN_EACH:
            faults.append(f"{len(forgotten)} jobs were told as forgotten, by a controller that was killed {self.killed} times")
        if self.killed < min(KILLS, KILLS * len(calls) // CALLS) or (len(calls) >= CALLS and not self.stopped):
            faults.append(f"the controller was killed {self.killed} times and stopped {self.stopped} times: make more calls")
        if len(calls) >= CALLS and not self._shims.lost["sbatch"]:
            faults.append("no reply of sbatch was lost: make more calls")
        return faults

    def _left(self, calls: list[Call]) -> list[str]:
        """Jobs that wait or run when all calls are over. Nobody cancels one whose start no client heard of."""
        made = {folder.name: label for label, all_of in records.folders(self._work).items() for folder in all_of}
        told = {call.labels[-1] for call in calls if call.task}
        unheard = {label for call in calls for label in call.labels if label not in told and call.work.status == "CANCELLED"}
        end = time.monotonic() + ENDING
        while True:
            rows = [row.split() for row in self._say("squeue", "-h", "-a", "-t", "PENDING,RUNNING", "-o", "%j %T %i").splitlines()]
            left = {name: f"{state} as {job}" for name, state, job in rows if made.get(name) not in unheard}
            heard = {made.get(name) for name in left} & told
            if not left or heard or time.monotonic() > end:
                return [f"the job {name} of {made.get(name)} is {state} after all calls" for name, state in left.items()]
            time.sleep(0.5)

    def _say(self, name: str, *arguments: str) -> str:
        for _ in range(30):
            done = self._run(name, *arguments)
            if done.returncode == 0:
                return done.stdout
            time.sleep(1)
        raise Failed(f"{name} fails: {done.stderr}")

    def _run(self, name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "SLURM_CONF": str(self._folder / "slurm.conf")}
        return subprocess.run([name, *arguments], env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)

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
