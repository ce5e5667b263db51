"""The Workflow Execution Service of GA4GH as an engine of the run: Toil, four tools over a CWL workflow and one in Python,
and what Toil itself says was run. It has no key.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from callers import Calls
from http_engine import SERVE, HttpEngine
from jobs import Verdict
from peer import Failed, Peer
from works import Work
from workflows import read

RUNS = "/ga4gh/wes/v1/runs"
STATUSES = {"COMPLETE": "SUCCEEDED", "EXECUTOR_ERROR": "FAILED", "CANCELED": "CANCELLED"}
KINDS = {"cwl": '"CWL", workflow_type_version = "v1.2"', "py": '"py", workflow_type_version = "3.11"'}


@dataclass(frozen=True)
class Workflow(Work):
    """What workflow.py does, or workflow.cwl."""

    may_be_uncertain: bool = True

    def arguments(self, label: str, number: int) -> dict[str, Any]:
        return {"key": label, "who": f"{label}, {number}", "kind": self.name, "do": self.runs}

    def result(self, label: str, number: int) -> Any:
        return {"said": f"hello {label}, {number}"}


class Printed(Workflow):
    """A workflow in Python hands back files alone, so its log is read."""

    def finish(self, peer: Peer, task: str) -> dict[str, Any]:
        return {**super().finish(peer, task), "log": read(peer, f"taskbridge://tasks/{task}/log")}

    def check(self, got: dict[str, Any], label: str, _number: int) -> None:
        if got["error"] or f"for {label}\n" not in got["log"]:
            raise Failed(f"the result of {self.name} for {label} is {got}")


class Wes(HttpEngine):
    """With the workflows of tests/http/toil."""

    name, preset = "toil", "ga4gh-wes"
    works = [
        Printed("printed", "print"),
        Workflow("fail", "fail", status="FAILED", tells="executor error, exit code 1"),
        Workflow("greet", "cwl"),
        Workflow("stop", "sleep", status="CANCELLED", shows="running", hurries=True),
    ]
    losses = {"start": 0.1, "poll": 0.1, "stdout": 0.1, "stderr": 0.1, "cancel": 0.3}
    moments = ("start", "stdout", "cancel")

    def target(self, work: Work) -> str:
        kind = "cwl" if work.runs == "cwl" else "py"
        return f'workflow_url = "file://{SERVE.parent}/toil/workflow.{kind}", workflow_type = {KINDS[kind]}'

    def runs(self) -> Iterator[tuple[str, str, str]]:
        """Toil keeps each run, with what it was called with."""
        for run in self.get(RUNS)["workflows"]:
            given = self.get(f"{RUNS}/{run['run_id']}")["request"]["workflow_params"]
            yield run["run_id"], given["kind"], given["key"]

    def end_of(self, run: str, _kind: str, _label: str) -> tuple[str, Any]:
        log = self.get(f"{RUNS}/{run}")
        return STATUSES.get(log["state"], log["state"]), log["outputs"] or None

    def complaints(self, calls: Calls, verdict: Verdict) -> list[str]:
        """A run that is cancelled has no process any more."""
        commands = b"".join(file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline") if file.exists()).decode()
        ended = [run for run, kind, label in self.runs() if self.end_of(run, kind, label)[0] == "CANCELLED"]
        left = [f"run {run} is cancelled, and goes on" for run in ended if f"/{run}/" in commands]
        return left + super().complaints(calls, verdict)

    def name_of(self, method: str, path: str, _headers: dict[str, str]) -> str:
        last = path.rpartition("/")[2]
        if method == "POST":
            return "start" if last == "runs" else last
        return last if "/logs/" in path else "poll"
