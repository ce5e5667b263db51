"""Temporal as an engine of the run: a development server and a worker, six tools over five workflows, and what the server
and the worker themselves say was run.
"""

import json
from collections.abc import Iterator
from typing import Any

from http_engine import HttpEngine
from works import Work

STATUSES = {"COMPLETED": "SUCCEEDED", "CANCELED": "CANCELLED"}
CLOSED = "historyEventFilterType=HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT"
# These answer the query `status`.
QUERIED = ("ask", "sleep")


class Temporal(HttpEngine):
    """With the workflows of tests/http/temporal/worker.py."""

    name = preset = "temporal"
    works = [
        Work("greet", "greet", {"said": "hello world"}),
        Work("later", "later"),
        Work("fail", "fail", status="FAILED", tells="out of luck"),
        Work("ask", "ask", {"answer": {"name": "Ada"}}, asks=True),
        Work("refuse", "ask", {"answer": None}, accepts=False, asks=True),
        Work("stop", "sleep", status="CANCELLED", shows="sleeping", hurries=True),
    ]
    losses = {"start": 0.2, "poll": 0.1, "list": 0.1, "history": 0.1, "query": 0.1, "update": 0.3, "cancel": 0.3}
    moments = ("start", "start", "update", "cancel")
    throttled = (429, b'{"code": 8, "message": "namespace rate limit exceeded"}', "content-type: application/json\r\n")
    pace = {"lease": "6s", "quickest": "200ms", "slowest": "2s"}
    call_timeout = "2900ms"

    def target(self, work: Work) -> str:
        query = ', query = "status"' if work.runs in QUERIED else ""
        return f'workflow = "{work.runs}", queue = "taskbridge"{query}'

    def runs(self) -> Iterator[tuple[str, str, str]]:
        """A file of the worker for each run."""
        for run in sorted((self.folder / "starts").glob("*/*")):
            given = json.loads(run.read_text())["arguments"]
            yield f"{run.parent.name}/{run.name}", given["kind"], given["label"]

    def end_of(self, run: str, _kind: str, _label: str) -> tuple[str, Any]:
        key, _, run_id = run.partition("/")
        info = self._get(f"/{key}?execution.runId={run_id}")["workflowExecutionInfo"]
        status = info["status"].removeprefix("WORKFLOW_EXECUTION_STATUS_")
        says = None
        if status == "COMPLETED":
            events = self._get(f"/{key}/history?execution.runId={run_id}&{CLOSED}")["history"]["events"]
            says = events[-1]["workflowExecutionCompletedEventAttributes"]["result"][0]
        return STATUSES.get(status, status), says

    def _get(self, path: str) -> Any:
        return self.get(f"/api/v1/namespaces/default/workflows{path}")

    def name_of(self, method: str, path: str, _headers: dict[str, str]) -> str:
        parts = path.partition("?")[0].partition("/workflows")[2].strip("/").split("/")
        if parts == [""]:
            return "list"
        if method == "POST":
            return parts[1] if len(parts) > 1 else "start"
        return "history" if len(parts) > 1 else "poll"
