"""How jobs end on a cluster that is left in peace: what a run whose controller is killed has no time for. The cluster has no accounting, and its
controller forgets a job soon after its end, so that the jobs' folders must tell what became of them.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from callers import Calls
from jobs import Job, Verdict
from peer import Failed, Peer
from slurm import HAND_BACK, Script, Slurm, until
from workflows import TERMINAL

# Limits of memory as the kernel keeps them, where this machine can.
HAS_CGROUPS = os.access("/sys/fs/cgroup/memory/tasks", os.W_OK)
# How many seconds a job takes to end after its script, and one that is cancelled meanwhile: a client must see that on a busy machine.
ENDING, LONG_ENDING = 6, 40
# What is told only of a job that the controller still knows.
CONTROLLERS = ("[FAILED]", "[COMPLETED]", " of 01:00:00")
GREEDY = "ended FAILED; exec python3 -c 'x = bytearray(300 << 20); import time; time.sleep(60)'"


@dataclass(frozen=True)
class End(Script):
    # The job is cancelled once this is said of it.
    cancelled_when: str = ""
    # What a task that is cancelled as its job ends may be, by the revision of the protocol.
    statuses: tuple[str, ...] = ("cancelled",)
    # Arguments that are refused.
    given: dict[str, Any] = field(default_factory=dict)
    # The tasks that a client asked to cancel.
    asked: set[str] = field(default_factory=set)
    # Whether the controller has forgotten it when the bridge looks, and of which calls that was seen.
    is_forgotten: bool = False
    seen_forgotten: set[str] = field(default_factory=set)

    def arguments(self, label: str, number: int) -> dict[str, Any]:
        return {**super().arguments(label, number), **self.given}

    def finish(self, peer: Peer, task: str) -> dict[str, Any]:
        if not self.cancelled_when:
            # Libraries wait for a result for a minute, and some of these take longer.
            until(peer, task)
            try:
                return super().finish(peer, task)
            except Failed as failure:
                # Some libraries make an error of what was refused.
                if self.begins or not self.is_told(str(failure)):
                    raise
                return {"text": str(failure), "structured": None, "error": True}
        seen = until(peer, task, self.cancelled_when)
        if seen["status"] not in TERMINAL:
            self.asked.add(task)
        return {**self.cancelled(peer, task, self.cancelled_when), "asked": task in self.asked}

    def check(self, got: dict[str, Any], label: str, number: int) -> None:
        if not self.cancelled_when:
            super().check(got, label, number)
            # What the controller knows of a job is told with it.
            if self.is_forgotten and not any(words in got["text"] for words in CONTROLLERS):
                self.seen_forgotten.add(label)
        elif got["status"] not in self.statuses or not got["asked"]:
            raise Failed(f"the result of {self.name} for {label}, {number} is {got}")


def ends() -> list[Script]:
    oom = "used more memory than requested" if HAS_CGROUPS else "SIGKILL"
    refused = {"status": "REFUSED", "begins": False}
    bounded = (
        'parameters.asked = { type = "string", default = "main" }\n',
        'resources = { partition = { value = "{{ asked }}", allowed = ["*"] } }',
        'resources = { time = { value = "{{ asked }}", max = "1:00:00" } }',
    )
    return [
        End("succeeds_and_is_forgotten", f"echo working; {HAND_BACK}", backend="slow_success", is_forgotten=True),
        End("fails_and_is_forgotten", "ended FAILED; echo the tray is empty >&2; exit 3", status="FAILED", says=("exit code 3",), backend="slow_failure", is_forgotten=True),
        End("takes_too_long", "ended FAILED; sleep 600", status="FAILED", says=("time limit",), target='resources = { time = "1", partition = "short" }'),
        End("takes_too_much_memory", GREEDY, status="FAILED", says=(oom,), target='resources = { memory_per_cpu = "50M" }'),
        End("is_cancelled_as_it_waits", HAND_BACK, status="CANCELLED", cancelled_when="partition", begins=False,
            target='resources = { partition = "closed" }'),
        End("is_cancelled_as_it_ends", 'touch "$RUNS.$SLURM_JOB_ID"; ended ENDED', status="ENDED", cancelled_when="ending", hurries=True,
            statuses=("cancelled", "completed")),
        End("names_no_partition", HAND_BACK, says=("nvalid partition",), parameters=bounded[0], target=bounded[1], given={"asked": "nowhere"}, **refused),
        End("smuggles_an_option", HAND_BACK, says=("must be letters",), parameters=bounded[0], target=bounded[1], given={"asked": "main --uid=0"}, **refused),
        End("asks_for_too_much", HAND_BACK, says=("over the limit",), parameters=bounded[0], target=bounded[2], given={"asked": "2:00:00"}, **refused),
        End("has_no_script", HAND_BACK, says=("cannot be read",), is_missing=True, **refused),
    ]


class SlurmEnds(Slurm):
    # The controller forgets a job 20 to 40 s after its end, and says only that it is ending for about the first seven. The rest is long
    # enough for a look, also on a busy machine.
    options = ["--cpus", "100", "--min-job-age", "20"]
    losses: dict[str, float] = {}
    peaceful = True

    def more_options(self) -> list[str]:
        epilog = self._work / "epilog"
        longer = f'[ ! -e "{self._runs}.$SLURM_JOB_ID" ] || sleep {LONG_ENDING - ENDING}'
        epilog.write_text(f"#!/bin/sh\nsleep {ENDING}\n{longer}\n")
        epilog.chmod(0o755)
        return ["--set", f"Epilog={epilog}", *(["--cgroups"] if HAS_CGROUPS else [])]

    def scripts(self) -> list[Script]:
        return ends()

    def config(self) -> str:
        # Backends that look so rarely that the controller has forgotten a job when they look again: after 90 s, while a job is young. A busy
        # machine may begin a job half a minute late. One for each kind: a look at a job that was started earlier would see one that has
        # just ended.
        slow = sorted({script.backend for script in self.works if isinstance(script, End) and script.is_forgotten})
        return super().config() + "".join(self.backend(name, 'look_every = "450s"\n') for name in slow)

    def complaints(self, calls: Calls, _verdict: Verdict) -> list[str]:
        """Of each kind that the controller is to forget, it must have forgotten one before the bridge looked. Of others it may still know,
        when the bridge looks for another call's sake."""
        seen = {script.name: script.seen_forgotten for script in self.works if isinstance(script, End) and script.is_forgotten}
        print(f"{sum(map(len, seen.values())):6} jobs that the controller had forgotten before they were looked at")
        return self._left(calls.all) + [f"the controller still knew all jobs of {name}" for name, labels in seen.items() if not labels]

    def jobs(self) -> Iterator[Job]:
        for folder in sorted(self._runs.iterdir()):
            for run in sorted(folder.iterdir()):
                status, _, said = run.read_text().partition("\n")
                yield Job(run.name.partition(".")[0], folder.name, status.strip(), json.loads(said) if status == "SUCCEEDED" else None, run.name)
