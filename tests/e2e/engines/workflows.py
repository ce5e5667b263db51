"""The workflows of the run over GitHub Actions, what a client does with a task of each, and what must come of it."""

import json
import time
from dataclasses import dataclass
from typing import Any

from callers import SECONDS as PATIENCE
from callers import result
from peer import SECONDS, Failed, Peer

HEAD = """name: {name}
run-name: {name} ${{{{ inputs.label }}}} ${{{{ inputs.taskbridge_job }}}}
on:
  workflow_dispatch:
    inputs:
      label: {{ type: string, required: true }}
      number: {{ type: number, required: true }}
      taskbridge_job: {{ type: string }}
jobs:
"""
HAND_BACK = (
    "mkdir -p $TEST_GITHUB_ARTIFACTS/taskbridge-output && printf"
    """ '{"label": "%s", "number": %s}' "$LABEL" "$NUMBER" > $TEST_GITHUB_ARTIFACTS/taskbridge-output/out.json"""
)
LEAVE = 'mkdir -p $TEST_GITHUB_ARTIFACTS/report && echo "for $LABEL" > $TEST_GITHUB_ARTIFACTS/report/lines.txt'
# What the job is cancelled in, or ends by itself if nobody does. A client may wait for other ends first.
LONG = "sleep 900"
TERMINAL = ("completed", "failed", "cancelled")
# Repositories of which no log and no artifact can be read: what their host answers, or `away` where it cannot be reached.
MISSING = {"missing": 404, "unreachable": "away"}
# What the bridge says where GitHub refused or its reply was lost: whoever reads may ask again.
NOT_NOW = "it cannot be read now"


@dataclass(frozen=True)
class Workflow:
    """One workflow. Those that succeed hand back what they were called with."""

    name: str
    jobs: dict[str, Any]
    status: str = "SUCCEEDED"
    # What a failure tells, in the result and in the log.
    says: str = ""
    # A file that it leaves in the artifact `report`.
    leaves: str = ""
    repository: str = "own"
    # Whether the client says yes to what is asked.
    accepts: bool = True
    children: int = 0
    # GitHub knows no key for a dispatch.
    may_be_uncertain: bool = True
    begins: bool = True
    hurries: bool = False

    @property
    def text(self) -> str:
        # What is JSON is YAML.
        return HEAD.format(name=self.name) + json.dumps(self.jobs, indent=2).replace("\n", "\n  ").join(["  ", "\n"])

    def arguments(self, label: str, number: int) -> dict[str, Any]:
        return {"label": label, "number": number}

    @property
    def is_unread(self) -> bool:
        """Whether what it says cannot be read."""
        return self.repository in MISSING

    def finish(self, peer: Peer, task: str) -> dict[str, Any]:
        if self.status == "CANCELLED":
            return cancelled(peer, task)
        if self.is_unread:
            # Some libraries wait for a result for a minute at most, and this takes most of one.
            look(peer, task, "an end", lambda seen: False, PATIENCE)
            return {**peer.ask("result", task=task), "ended": time.time()}
        got = result(peer, task)
        if self.leaves:
            got["read"] = [read(peer, uri) for uri in got["links"] if uri.endswith(f"/artifacts/report/{self.leaves}")]
        if self.says:
            got["log"] = read(peer, f"taskbridge://tasks/{task}/log")
        return got

    def check(self, got: dict[str, Any], label: str, number: int) -> None:
        """Fails unless this is what a call with this label must come to."""
        structured = got["structured"] or {}
        if self.is_unread:
            conclusion = "success" if self.status == "SUCCEEDED" else "failure"
            unread = " ".join(structured.get("not_read", []))
            right = structured.get("conclusion") == conclusion and got["error"] == (self.status != "SUCCEEDED")
            is_told = f"- work: {conclusion}" in got["text"] and "localhost" in unread
            # The last reply with the jobs may have been lost, which name the logs.
            right = right and (is_told or "the jobs: " in unread)
        elif self.status == "SUCCEEDED":
            right = structured == {"label": label, "number": number} and not got["error"]
            right = right and got.get("read", []) == ([f"for {label}\n"] if self.leaves else [])
        elif self.status == "CANCELLED":
            right = got["status"] == "cancelled"
        else:
            right = got["error"] and structured.get("conclusion") == "failure"
            right = right and self.says in json.dumps(structured) + got["text"] and self.says in got.get("log", "")
        if not right:
            raise Failed(f"the result of {self.name} for {label}, {number} is {got}")


def look(peer: Peer, task: str, what: str, holds: Any, seconds: int = SECONDS) -> dict[str, Any]:
    """Looks until the task has ended, or this holds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seen = peer.ask("look", task=task)
        if seen["status"] in TERMINAL or holds(seen):
            return seen
        time.sleep(0.3)
    raise Failed(f"{what} was never seen: {seen}")


def cancelled(peer: Peer, task: str) -> dict[str, Any]:
    """Cancels a task in the middle of its job. Whoever does it again, because the bridge was killed, finds what there is."""
    seen = look(peer, task, "the running job", lambda seen: "running" in (seen.get("message") or ""))
    if seen["status"] not in TERMINAL:
        peer.ask("cancel", task=task)
        seen = look(peer, task, "an end", lambda seen: False)
    return {"text": seen.get("message") or "", "structured": None, "error": True, "status": seen["status"]}


def read(peer: Peer, uri: str) -> str:
    """What lies at an address, once GitHub can be asked for it."""
    end = time.monotonic() + SECONDS
    while True:
        try:
            return peer.ask("read", uri=uri)
        except Failed as failure:
            if time.monotonic() > end or NOT_NOW not in str(failure):
                raise
        time.sleep(0.5)


def step(command: str) -> dict[str, Any]:
    return {"run": command, "env": {"LABEL": "${{ inputs.label }}", "NUMBER": "${{ inputs.number }}"}}


def job(*commands: str, **more: Any) -> dict[str, Any]:
    return {"runs-on": "ubuntu-latest", "steps": [step(command) for command in commands], **more}


def workflows() -> list[Workflow]:
    gated = {"deploy": job(HAND_BACK, environment="production")}
    tests = job("echo testing ${{ matrix.part }}", strategy={"matrix": {"part": ["api", "web"]}})
    failing = {"work": job("echo compiling", "echo the tray is empty; exit 3")}
    return [
        Workflow("succeeds", {"work": job("echo working", HAND_BACK)}),
        Workflow("is_cancelled", {"work": job("echo working", LONG)}, status="CANCELLED"),
        Workflow("fails", failing, status="FAILED", says="the tray is empty"),
        Workflow("matrix", {"test": tests, "report": job(HAND_BACK, needs="test")}),
        Workflow("leaves", {"work": job(LEAVE, HAND_BACK)}, leaves="lines.txt"),
        Workflow("asks", gated),
        Workflow("asks_another", gated, repository="other"),
        Workflow("is_refused", gated, status="FAILED", repository="refused"),
        Workflow("takes_a_while", {"work": job("sleep 2", HAND_BACK)}),
        Workflow("is_declined", gated, status="FAILED", accepts=False),
        Workflow("loses_its_output", {"work": job(LEAVE, HAND_BACK)}, repository="missing", hurries=True),
        Workflow("loses_its_log", failing, status="FAILED", repository="unreachable", hurries=True),
    ]
