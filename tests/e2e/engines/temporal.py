"""Temporal as an engine of the run, over its HTTP API by the http adapter: a development server and a worker behind a
proxy that loses replies, six kinds of workflows, and what the server and the worker themselves say was run.
"""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from callers import Calls
from jobs import Job, Verdict
from peer import SECONDS, Failed, Peer
from proxy import Proxy
from workflows import TERMINAL, look
from works import Work

SERVE = Path(__file__).resolve().parents[2] / "http/serve.py"
# How likely the reply to a request is lost, by what it does to lose it.
LOSSES = {"start": 0.2, "poll": 0.1, "list": 0.1, "history": 0.1, "query": 0.1, "update": 0.3, "cancel": 0.3}
# Requests at which a kill hurts most: served, and nobody hears of it.
MOMENTS = ("start", "start", "update", "cancel")
THROTTLED = (429, b'{"code": 8, "message": "namespace rate limit exceeded"}', "content-type: application/json\r\n")
STATUSES = {"COMPLETED": "SUCCEEDED", "CANCELED": "CANCELLED"}
CLOSED = "historyEventFilterType=HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT"


class Workflow(Work):
    """A workflow of tests/http/temporal/worker.py."""

    def finish(self, peer: Peer, task: str) -> dict[str, Any]:
        if self.status != "CANCELLED":
            return peer.ask("result", task=task)
        # Whoever does it again, because the bridge was killed, finds what there is.
        seen = look(peer, task, "the running job", lambda seen: "sleeping" in (seen.get("message") or ""))
        if seen["status"] not in TERMINAL:
            peer.ask("cancel", task=task)
            seen = look(peer, task, "an end", lambda seen: False)
        return {"status": seen["status"], "structured": None, "error": False}


WORKFLOWS = [
    Workflow("greet", "greet", {"said": "hello world"}),
    Workflow("later", "later", {}),
    Workflow("fail", "fail", {}, status="FAILED", tells="out of luck"),
    Workflow("ask", "ask", {"answer": {"name": "Ada"}}, asks=True),
    Workflow("refuse", "ask", {"answer": None}, accepts=False, asks=True),
    Workflow("stop", "sleep", {}, status="CANCELLED", asks=True, hurries=True),
]


class Temporal:
    # How many there are over one store.
    bridges = 2

    def __init__(self, installed: Path, work: Path, log: IO[bytes], seed: int) -> None:
        self.moments = MOMENTS
        self.works = WORKFLOWS
        self._folder = work / "temporal"
        self._process = subprocess.Popen(
            [sys.executable, "-B", str(SERVE), "temporal", str(installed / "http"), str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert self._process.stdout
        word, _, port = self._process.stdout.readline().strip().partition(" ")
        if word != "ready":
            raise Failed("Temporal did not start")
        self._port = int(port)
        self.proxies = {"temporal": Proxy(self._port, LOSSES, seed, name_of, THROTTLED)}

    def config(self) -> str:
        """The backend and the tools of the bridge."""
        port = self.proxies["temporal"].port
        parts = [
            f'[backends.temporal]\nkind = "http"\npreset = "temporal"\nbase = "http://127.0.0.1:{port}"\n'
            'call_timeout = "2900ms"\n'
        ]
        parts += [
            f'[tools.{work.name}]\nbackend = "temporal"\ndescription = "Runs {work.runs}."\n'
            f'target = {{ workflow = "{work.runs}", queue = "taskbridge"{query(work)} }}\n'
            'parameters.label = { type = "string" }\nparameters.number = { type = "integer" }\n'
            'parameters.kind = { type = "string" }\n'
            for work in self.works
        ]
        return "".join(parts)

    def post_to(self, hooks: list[str]) -> None:
        """Temporal posts nothing."""

    def faults(self) -> list[tuple[int, str]]:
        return []

    def jobs(self) -> Iterator[Job]:
        """What was run: a file of the worker for each run, and its end as the server says."""
        for run in sorted((self._folder / "starts").glob("*/*")):
            began = json.loads(run.read_text())
            key = run.parent.name
            status, says = self._end(key, run.name)
            given = began["arguments"]
            yield Job(given["kind"], given["label"], status, says, f"{key}, run {run.name}")

    def _end(self, key: str, run: str) -> tuple[str, Any]:
        """The status of a run once it has ended, and its result. One that nobody holds may go on."""
        end = time.monotonic() + SECONDS
        while True:
            info = self._get(f"/{key}?execution.runId={run}")["workflowExecutionInfo"]
            status = info["status"].removeprefix("WORKFLOW_EXECUTION_STATUS_")
            if status != "RUNNING" or time.monotonic() > end:
                break
            time.sleep(0.3)
        says = None
        if status == "COMPLETED":
            events = self._get(f"/{key}/history?execution.runId={run}&{CLOSED}")["history"]["events"]
            says = events[-1]["workflowExecutionCompletedEventAttributes"]["result"][0]
        return STATUSES.get(status, status), says

    def _get(self, path: str) -> Any:
        url = f"http://127.0.0.1:{self._port}/api/v1/namespaces/default/workflows{path}"
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            return json.loads(answer.read())

    def complaints(self, _calls: Calls, _verdict: Verdict) -> list[str]:
        return []

    def stop(self) -> None:
        """It ends with its input."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(SECONDS)


def query(work: Workflow) -> str:
    return ', query = "status"' if work.asks else ""


def name_of(method: str, path: str, _headers: dict[str, str]) -> str:
    """What a request is, in a word."""
    parts = path.partition("?")[0].partition("/workflows")[2].strip("/").split("/")
    if parts == [""]:
        return "list"
    if method == "POST":
        return parts[1] if len(parts) > 1 else "start"
    return "history" if len(parts) > 1 else "poll"
