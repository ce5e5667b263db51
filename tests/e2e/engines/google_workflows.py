"""Google Cloud Workflows as an engine of the run: the interpreter workflows-emulator behind Google's APIs, six tools over five
workflows, and what the APIs say was run. Each request is held against Google's discovery documents. A start has no key.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

from callers import Calls
from http_engine import HttpEngine
from jobs import Job, Verdict
from peer import SECONDS
from works import Work

# Without the last table, a refusal cancels the execution, as for a workflow that does not look at the answer.
BACKEND = r'''vars.project = "test-project"
auth.google = {{ credentials = {{ file = "{key}" }}, token_url = "http://127.0.0.1:{port}/token" }}
doctor.credentials.base = "http://localhost:{port}/v1"
doctor.tool.base = "http://localhost:{port}/v1"
[backends.engine.answer.decline]
method = "POST"
path = """/projects/{{{{ handle.project }}}}/locations/{{{{ vars.location }}}}/workflows/{{{{ handle.workflow }}}}\
    /executions/{{{{ handle.execution }}}}/callbacks/{{{{ question }}}}"""
json = {{ declined = true }}
'''
ANSWER = '{ type = "object", properties = { name = { type = "string" } } }'


@dataclass(frozen=True)
class Execution(Work):
    """A start is searched for by its label. If a kill came before it was sent, it stays uncertain."""

    may_be_uncertain: bool = True


class GoogleWorkflows(HttpEngine):
    """With the workflows of tests/http/google_workflows."""

    name, preset = "google_workflows", "google-workflows"
    works = [
        Execution("greet", "greet", {"said": "hello world"}),
        Execution("later", "later"),
        Execution("fail", "fail", status="FAILED", tells="out of luck"),
        Execution("ask", "ask", {"answer": {"name": "Ada"}}, asks=True),
        Execution("refuse", "ask", {"answer": {"declined": True}}, accepts=False, asks=True),
        Execution("stop", "wait", status="CANCELLED", shows="rest", hurries=True),
    ]
    losses = {
        "token": 0.1, "start": 0.25, "find": 0.1, "poll": 0.1, "list": 0.1, "steps": 0.1, "callbacks": 0.1,
        "answer": 0.3, "cancel": 0.3,
    }
    moments = ("start", "start", "answer", "cancel")
    throttled = (
        429,
        b'{"error": {"code": 429, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED"}}',
        "content-type: application/json\r\n",
    )
    pace = {"lease": "6s", "quickest": "200ms", "slowest": "2s"}
    call_timeout = "2900ms"
    # The list of executions has all of them at once.
    tool = 'settle_window = "20s"\n'

    def config(self) -> str:
        port = self.proxies[self.name].port
        self.backend = BACKEND.format(port=port, key=self.folder / "key.json")
        base = f'base = "http://127.0.0.1:{port}'
        return super().config().replace(f'{base}"', f'{base}/v1"')

    def target(self, work: Work) -> str:
        question = f', question = "What is your name?", answer = {ANSWER}' if work.asks else ""
        return f'workflow = "{work.runs}"{question}'

    def jobs(self) -> Iterator[Job]:
        """All executions, once they have ended. One that nobody holds may go on."""
        end = time.monotonic() + SECONDS
        while not all("endTime" in one for one in self.get("/all")) and time.monotonic() < end:
            time.sleep(0.3)
        for execution in self.get("/all"):
            given = json.loads(execution["argument"])
            says = json.loads(execution["result"]) if "result" in execution else None
            name = f"{execution['labels']['taskbridge']}, {execution['name'].rpartition('/')[2]}"
            yield Job(given["kind"], given["label"], execution["state"], says, name)

    def complaints(self, calls: Calls, verdict: Verdict) -> list[str]:
        """What Google's discovery documents do not allow, too."""
        violations = self.folder / "violations"
        lines = violations.read_text().splitlines() if violations.exists() else []
        return super().complaints(calls, verdict) + lines

    def name_of(self, method: str, path: str, _headers: dict[str, str]) -> str:
        path, _, query = path.partition("?")
        last = path.rpartition("/")[2]
        if method == "POST":
            return {"token": "token", "executions": "start"}.get(last) or ("cancel" if path.endswith(":cancel") else "answer")
        if last == "executions":
            return "find" if "view=FULL" in query else "list"
        return {"stepEntries": "steps", "callbacks": "callbacks"}.get(last, "poll")
