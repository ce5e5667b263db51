"""Google Cloud Workflows as an engine of the run, by the http adapter: the interpreter workflows-emulator behind Google's
APIs (tests/http/google_workflows), a proxy that loses replies, and six kinds of workflows. Each request is held against
Google's discovery documents.
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
LOSSES = {
    "token": 0.1,
    "start": 0.25,
    "find": 0.1,
    "poll": 0.1,
    "list": 0.1,
    "steps": 0.1,
    "callbacks": 0.1,
    "answer": 0.3,
    "cancel": 0.3,
}
# Requests at which a kill hurts most: served, and nobody hears of it.
MOMENTS = ("start", "start", "answer", "cancel")
THROTTLED = (
    429,
    b'{"error": {"code": 429, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED"}}',
    "content-type: application/json\r\n",
)
# Without the last table, a refusal cancels the execution, as for a workflow that does not look at the answer.
BACKEND = r'''[backends.google]
kind = "http"
preset = "google-workflows"
base = "http://127.0.0.1:{port}/v1"
call_timeout = "2900ms"
vars.project = "test-project"
auth.google = {{ credentials = {{ file = "{key}" }}, token_url = "http://127.0.0.1:{port}/token" }}
doctor.credentials.base = "http://localhost:{port}/v1"
doctor.tool.base = "http://localhost:{port}/v1"
[backends.google.answer.decline]
method = "POST"
path = """/projects/{{{{ handle.project }}}}/locations/{{{{ vars.location }}}}/workflows/{{{{ handle.workflow }}}}\
    /executions/{{{{ handle.execution }}}}/callbacks/{{{{ question }}}}"""
json = {{ declined = true }}
'''
ANSWER = '{ type = "object", properties = { name = { type = "string" } } }'
QUESTION = f', question = "What is your name?", answer = {ANSWER}'


class Execution(Work):
    """A workflow of tests/http/google_workflows. A start has no key, and is searched for by its label. If a kill came
    before it was sent, it stays uncertain."""

    def finish(self, peer: Peer, task: str) -> dict[str, Any]:
        if self.status != "CANCELLED":
            return peer.ask("result", task=task)
        # Whoever does it again, because the bridge was killed, finds what there is.
        seen = look(peer, task, "the running job", lambda seen: "rest" in (seen.get("message") or ""))
        if seen["status"] not in TERMINAL:
            peer.ask("cancel", task=task)
            seen = look(peer, task, "an end", lambda seen: False)
        if seen["status"] != "cancelled":
            raise Failed(f"{task} is {seen}")
        return {"status": seen["status"], "structured": None, "error": False}


WORKS = [
    Execution("greet", "greet", {"said": "hello world"}, may_be_uncertain=True),
    Execution("later", "later", {}, may_be_uncertain=True),
    Execution("fail", "fail", {}, status="FAILED", tells="out of luck", may_be_uncertain=True),
    Execution("ask", "ask", {"answer": {"name": "Ada"}}, asks=True, may_be_uncertain=True),
    Execution("refuse", "ask", {"answer": {"declined": True}}, accepts=False, asks=True, may_be_uncertain=True),
    Execution("stop", "wait", {}, status="CANCELLED", hurries=True, may_be_uncertain=True),
]


class GoogleWorkflows:
    # How many there are over one store.
    bridges = 2

    def __init__(self, installed: Path, work: Path, log: IO[bytes], seed: int) -> None:
        self.moments = MOMENTS
        self.works = WORKS
        self._folder = work / "google"
        self._process = subprocess.Popen(
            [sys.executable, "-B", str(SERVE), "google_workflows", str(installed / "http"), str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert self._process.stdout
        word, _, port = self._process.stdout.readline().strip().partition(" ")
        if word != "ready":
            raise Failed("the APIs of Google did not start")
        self._port = int(port)
        self.proxies = {"google": Proxy(self._port, LOSSES, seed, name_of, THROTTLED)}

    def config(self) -> str:
        """The backend and the tools of the bridge."""
        parts = [BACKEND.format(port=self.proxies["google"].port, key=self._folder / "key.json")]
        parts += [
            f'[tools.{work.name}]\nbackend = "google"\ndescription = "Runs {work.runs}."\n'
            f'target = {{ workflow = "{work.runs}"{QUESTION if work.asks else ""} }}\n'
            'parameters.label = { type = "string" }\nparameters.number = { type = "integer" }\n'
            # The list of executions has all of them at once, and clients do not wait for two minutes.
            'parameters.kind = { type = "string" }\nsettle_window = "20s"\n'
            for work in self.works
        ]
        return "".join(parts)

    def post_to(self, hooks: list[str]) -> None:
        """Nothing is posted."""

    def faults(self) -> list[tuple[int, str]]:
        return []

    def jobs(self) -> Iterator[Job]:
        """All executions, as their server says once they have ended. One that nobody holds may go on."""
        end = time.monotonic() + SECONDS
        while True:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/all", timeout=SECONDS) as answer:
                executions = json.loads(answer.read())
            if all("endTime" in execution for execution in executions) or time.monotonic() > end:
                break
            time.sleep(0.3)
        for execution in executions:
            given = json.loads(execution["argument"])
            says = json.loads(execution["result"]) if "result" in execution else None
            name = f"{execution['labels']['taskbridge']}, {execution['name'].rpartition('/')[2]}"
            yield Job(given["kind"], given["label"], execution["state"], says, name)

    def complaints(self, _calls: Calls, _verdict: Verdict) -> list[str]:
        """What Google's discovery documents do not allow."""
        violations = self._folder / "violations"
        return violations.read_text().splitlines() if violations.exists() else []

    def stop(self) -> None:
        """It ends with its input."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(SECONDS)


def name_of(method: str, path: str, _headers: dict[str, str]) -> str:
    """What a request is, in a word."""
    path, _, query = path.partition("?")
    last = path.rpartition("/")[2]
    if method == "POST":
        return {"token": "token", "executions": "start"}.get(last) or ("cancel" if path.endswith(":cancel") else "answer")
    if last == "executions":
        return "find" if "view=FULL" in query else "list"
    return {"stepEntries": "steps", "callbacks": "callbacks"}.get(last, "poll")
