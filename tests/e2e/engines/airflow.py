"""Airflow 3 as an engine of the run, over its REST API by the http adapter: a real Airflow behind a proxy that loses
replies, whose API server and scheduler are killed, five DAGs, and what Airflow itself says was run.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from callers import SECONDS as PATIENCE
from callers import Calls
from jobs import Job, Verdict
from peer import SECONDS, Failed, Peer
from proxy import Proxy
from workflows import TERMINAL, look
from works import Work

HERE = Path(__file__).resolve().parent
SERVE = HERE.parents[1] / "http/serve.py"
DAGS = HERE / "airflow_dags.py"
# How likely the reply to a request is lost, by what it does to lose it.
LOSSES = {
    "token": 0.1,
    "start": 0.2,
    "poll": 0.1,
    "list": 0.1,
    "questions": 0.1,
    "tasks": 0.1,
    "result": 0.1,
    "answer": 0.3,
    "end": 0.3,
}
# Requests at which a kill hurts most: served, and nobody hears of it.
MOMENTS = ("start", "start", "answer", "end")
THROTTLED = (429, b'{"detail": "Too many requests"}', "content-type: application/json\r\n")
# One of them is killed after so many seconds, more or less, by turns: at first sooner, as long as there are starts.
PARTS = ("api-server", "scheduler")
SOON, KILLED_EVERY, PEACE_AFTER = 5, 45, 45
SETTINGS = {
    # A killed scheduler is missed after so many seconds, and its tasks run again.
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "45",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    # Without them, tasks fail while the API server is away.
    "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "100",
    "AIRFLOW__WORKERS__EXECUTION_API_RETRY_WAIT_MAX": "5",
    "AIRFLOW__WORKERS__MAX_FAILED_HEARTBEATS": "1000",
}
# Airflow's own names for states, and the note that the bridge leaves with what it ends.
STATES = {"success": "SUCCEEDED", "failed": "FAILED"}
CANCELLED = "cancelled by taskbridge"
# The form of the DAG has one option, which the clients of the run do not name.
FORM = """[backends.airflow.ask]
schema = "{'type': 'object', 'properties': {}, 'required': []}"
[backends.airflow.answer]
json = { chosen_options = ["OK"], params_input = "{{ answer }}" }
"""


class Dag(Work):
    """A DAG of airflow_dags.py."""

    def finish(self, peer: Peer, task: str) -> dict[str, Any]:
        if self.asks:
            # Some libraries wait for a minute at most, and for a question as long as for a result.
            look(peer, task, "a question", lambda seen: seen["status"] == "input_required", PATIENCE)
        if self.status != "CANCELLED":
            return result(peer, task)
        # Whoever does it again, because the bridge was killed, finds what there is.
        seen = look(peer, task, "the running task", lambda seen: "result" in (seen.get("message") or ""), PATIENCE)
        if seen["status"] not in TERMINAL:
            peer.ask("cancel", task=task)
            seen = look(peer, task, "an end", lambda seen: False, PATIENCE)
        return {"status": seen["status"], "structured": None, "error": False}


def result(peer: Peer, task: str) -> dict[str, Any]:
    """What came of a task. Some libraries wait for a minute at most, and are asked again."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            got: dict[str, Any] = peer.ask("result", task=task)
            return got
        except Failed as failure:
            if "Request timed out" not in str(failure) or time.monotonic() > end:
                raise


WORKS = [
    Dag("greet", "call_greet", {"said": "hello world"}),
    Dag("later", "call_later", {}),
    Dag("fail", "call_fail", {}, status="FAILED", tells="result"),
    Dag("ask", "call_ask", {"answer": {"name": "Ada"}}, asks=True),
    Dag("refuse", "call_ask", {}, status="FAILED", accepts=False, asks=True),
    Dag("stop", "call_sleep", {}, status="CANCELLED", hurries=True),
]


class Airflow:
    # How many there are over one store.
    bridges = 2
    # An answer of its API server costs tens of milliseconds of a processor, a poll has three, and a busy machine may need
    # many seconds for one.
    pace = {"lease": "30s", "quickest": "1s", "slowest": "4s"}

    def __init__(self, installed: Path, work: Path, log: IO[bytes], seed: int) -> None:
        self.moments = MOMENTS
        self.works = WORKS
        self._folder = work / "airflow"
        (self._folder / "dags").mkdir(parents=True)
        shutil.copy(DAGS, self._folder / "dags")
        self._process = subprocess.Popen(
            [sys.executable, "-B", str(SERVE), "airflow", str(installed / "http"), str(self._folder)],
            env={**os.environ, **SETTINGS},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        word, _, port = self._line().partition(" ")
        if word != "ready":
            raise Failed("Airflow did not start")
        self._url = f"http://127.0.0.1:{port}/api/v2"
        self._token = (self._folder / "token").read_text()
        self._wait_for_dags()
        self.proxies = {"airflow": Proxy(int(port), LOSSES, seed, name_of, THROTTLED)}
        self.killed = dict.fromkeys(PARTS, 0)
        self._broke: list[str] = []
        self._random = random.Random(seed)
        self._over = threading.Event()
        self._somebody = threading.Thread(target=self._disturb)
        self._somebody.start()

    def _line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def _order(self, order: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()
        said = self._line()
        if said != "ok":
            raise Failed(f"{order}: {said or 'Airflow ended'}")

    def _wait_for_dags(self) -> None:
        """Until all are parsed."""
        end = time.monotonic() + PATIENCE
        wanted = {work.runs for work in self.works}
        while wanted - {dag["dag_id"] for dag in self._get("/dags", limit=100)["dags"]}:
            if time.monotonic() > end:
                raise Failed("Airflow did not find the DAGs")
            time.sleep(0.5)

    def _disturb(self) -> None:
        """From the first run on, the API server and the scheduler are killed by turns and started again. Airflow has peace when
        nothing was started for a while."""
        asked = self.proxies["airflow"].asked
        try:
            while not asked["start"] and not self._over.wait(0.1):
                pass
            seen, since = asked["start"], time.monotonic()
            while not self._over.wait(self._pause()):
                if seen != asked["start"]:
                    seen, since = asked["start"], time.monotonic()
                if time.monotonic() - since > PEACE_AFTER:
                    continue
                part = PARTS[sum(self.killed.values()) % len(PARTS)]
                self._order(f"kill {part}")
                self._over.wait(2 * self._random.random())
                self._order(f"start {part}")
                self.killed[part] += 1
        except Exception as error:  # Whatever it is, nobody else would hear of it.
            self._broke.append(f"nobody killed Airflow any more: {error!r}")

    def _pause(self) -> float:
        return (KILLED_EVERY if all(self.killed.values()) else SOON) * (0.5 + self._random.random())

    def config(self) -> str:
        """The backend and the tools of the bridge."""
        port = self.proxies["airflow"].port
        secret = self._folder / "password"
        secret.touch(0o600)
        secret.write_text("secret")
        parts = [
            f'[backends.airflow]\nkind = "http"\npreset = "airflow-3"\nbase = "http://127.0.0.1:{port}"\n'
            f'auth.exchange = {{ user = "bridge", password = {{ file = "{secret}" }} }}\n'
            f'call_timeout = "14s"\n{FORM}'
        ]
        parts += [
            f'[tools.{work.name}]\nbackend = "airflow"\ndescription = "Runs {work.runs}."\n'
            f'target = {{ dag = "{work.runs}" }}\n'
            # On a busy machine, Airflow is away for minutes while it starts again.
            'start_within = "30m"\n'
            'parameters.label = { type = "string" }\nparameters.number = { type = "integer" }\n'
            'parameters.kind = { type = "string" }\n'
            for work in self.works
        ]
        return "".join(parts)

    def post_to(self, hooks: list[str]) -> None:
        """Airflow posts nothing."""

    def faults(self) -> list[tuple[int, str]]:
        """What else broke."""
        return [(count, f"times Airflow's {part} was killed (-9) and started again") for part, count in self.killed.items()]

    def jobs(self) -> Iterator[Job]:
        """What was run, as Airflow itself says."""
        self._leave_in_peace()
        for run in self._runs():
            given, note = run["conf"], run["note"] or ""
            status = "CANCELLED" if CANCELLED in note else STATES.get(run["state"], run["state"])
            says = self._result(run) if status == "SUCCEEDED" else None
            yield Job(given["kind"], given["label"], status, says, f"{run['dag_id']}, run {run['dag_run_id']}")

    def _runs(self) -> list[dict[str, Any]]:
        runs: list[dict[str, Any]] = []
        while True:
            page = self._get("/dags/~/dagRuns", limit=100, offset=len(runs), order_by="id")
            runs += page["dag_runs"]
            if not page["dag_runs"] or len(runs) >= page["total_entries"]:
                return runs

    def _result(self, run: dict[str, Any]) -> Any:
        path = f"/dags/{run['dag_id']}/dagRuns/{run['dag_run_id']}/taskInstances/result/xcomEntries/return_value"
        return self._get(path, deserialize="true")["value"]

    def _get(self, path: str, **query: Any) -> Any:
        """Airflow's answer, without the proxy."""
        url = f"{self._url}{path}?{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(url, headers={"authorization": f"Bearer {self._token}"})
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return json.loads(answer.read())

    def complaints(self, _calls: Calls, _verdict: Verdict) -> list[str]:
        """What did not break that was to. Tasks that Airflow ran again after a kill are no fault."""
        tries = [len(file.read_text().splitlines()) for file in (self._folder / "starts").glob("*")]
        print(f"{sum(tries) - len(tries):6} tasks that Airflow ran again, because their scheduler was killed")
        return self._broke

    def _leave_in_peace(self) -> None:
        self._over.set()
        self._somebody.join()

    def stop(self) -> None:
        """It ends with its input."""
        self._leave_in_peace()
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(SECONDS)


def name_of(method: str, path: str, _headers: dict[str, str]) -> str:
    """What a request is, in a word."""
    parts = path.partition("?")[0].strip("/").split("/")
    if parts[0] == "auth":
        return "token"
    # api, v2, dags, DAG, dagRuns, RUN, ..
    last, depth = parts[-1], len(parts)
    if last == "hitlDetails":
        return "answer" if method == "PATCH" else "questions"
    if last == "dagRuns":
        return "start" if method == "POST" else "list"
    if depth == 6:
        # A cancellation, or a question that is declined.
        return "end" if method == "PATCH" else "poll"
    return {"taskInstances": "tasks", "return_value": "result"}.get(last, "log" if "logs" in parts else "dag")
