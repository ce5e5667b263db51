"""Airflow 3 as an engine of the run: a real Airflow whose API server and scheduler are killed, six tools over five DAGs, and
what Airflow itself says was run.
"""

import random
import shutil
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from callers import SECONDS as PATIENCE
from callers import Calls
from http_engine import HttpEngine
from jobs import Job, Verdict
from peer import Failed
from works import Work

DAGS = Path(__file__).resolve().parent / "airflow_dags.py"
# One of them is killed after so many seconds, more or less, by turns: at first sooner, as long as there are starts.
PARTS = ("api-server", "scheduler")
SOON, KILLED_EVERY, PEACE_AFTER = 5, 45, 45
# Airflow's own names for states, and the note that the bridge leaves with what it ends.
STATES = {"success": "SUCCEEDED", "failed": "FAILED"}
CANCELLED = "cancelled by taskbridge"
THROTTLED = (429, b'{"detail": "Too many requests"}', "content-type: application/json\r\n")
# The form of the DAG has one option, which the clients of the run do not name.
FORM = """auth.exchange = {{ user = "bridge", password = {{ file = "{secret}" }} }}
[backends.engine.ask]
schema = "{{'type': 'object', 'properties': {{}}, 'required': []}}"
[backends.engine.answer]
json = {{ chosen_options = ["OK"], params_input = "{{{{ answer }}}}" }}
"""


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


class Airflow(HttpEngine):
    name, preset = "airflow", "airflow-3"
    works = [
        Work("greet", "call_greet", {"said": "hello world"}),
        Work("later", "call_later"),
        Work("fail", "call_fail", status="FAILED", tells="result"),
        Work("ask", "call_ask", {"answer": {"name": "Ada"}}, asks=True),
        Work("refuse", "call_ask", status="FAILED", accepts=False, asks=True),
        Work("stop", "call_sleep", status="CANCELLED", shows="result", hurries=True),
    ]
    losses = {
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
    moments = ("start", "start", "answer", "end")
    throttled = THROTTLED
    name_of = staticmethod(name_of)
    # On a busy machine, Airflow is away for minutes while it starts again.
    tool = 'start_within = "30m"\n'
    environment = {
        # A killed scheduler is missed after so many seconds, and its tasks run again.
        "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "45",
        "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
        # Without them, tasks fail while the API server is away.
        "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "100",
        "AIRFLOW__WORKERS__EXECUTION_API_RETRY_WAIT_MAX": "5",
        "AIRFLOW__WORKERS__MAX_FAILED_HEARTBEATS": "1000",
    }

    def __init__(self, installed: Path, work: Path, log: IO[bytes], seed: int) -> None:
        super().__init__(installed, work, log, seed)
        self._token = (self.folder / "token").read_text()
        self._wait_for_dags()
        self.killed = dict.fromkeys(PARTS, 0)
        self._broke: list[str] = []
        self._random = random.Random(seed)
        self._over = threading.Event()
        self._somebody = threading.Thread(target=self._disturb)
        self._somebody.start()

    def prepare(self) -> None:
        (self.folder / "dags").mkdir()
        shutil.copy(DAGS, self.folder / "dags")
        secret = self.folder / "secret"
        secret.touch(0o600)
        secret.write_text("secret")
        self.backend = FORM.format(secret=secret)

    def target(self, work: Work) -> str:
        return f'dag = "{work.runs}"'

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
                self.order(f"kill {part}")
                self._over.wait(2 * self._random.random())
                self.order(f"start {part}")
                self.killed[part] += 1
        except Exception as error:  # Whatever it is, nobody else would hear of it.
            self._broke.append(f"nobody killed Airflow any more: {error!r}")

    def _pause(self) -> float:
        return (KILLED_EVERY if all(self.killed.values()) else SOON) * (0.5 + self._random.random())

    def faults(self) -> list[tuple[int, str]]:
        return [(count, f"times Airflow's {part} was killed (-9) and started again") for part, count in self.killed.items()]

    def jobs(self) -> Iterator[Job]:
        self._leave_in_peace()
        runs: list[dict[str, Any]] = []
        while page := self._get("/dags/~/dagRuns", limit=100, offset=len(runs), order_by="id")["dag_runs"]:
            runs += page
        for run in runs:
            given, note = run["conf"], run["note"] or ""
            status = "CANCELLED" if CANCELLED in note else STATES.get(run["state"], run["state"])
            says = self._result(run) if status == "SUCCEEDED" else None
            yield Job(given["kind"], given["label"], status, says, f"{run['dag_id']}, run {run['dag_run_id']}")

    def _result(self, run: dict[str, Any]) -> Any:
        path = f"/dags/{run['dag_id']}/dagRuns/{run['dag_run_id']}/taskInstances/result/xcomEntries/return_value"
        return self._get(path, deserialize="true")["value"]

    def _get(self, path: str, **query: Any) -> Any:
        return self.get(f"/api/v2{path}?{urllib.parse.urlencode(query)}", {"authorization": f"Bearer {self._token}"})

    def complaints(self, calls: Calls, verdict: Verdict) -> list[str]:
        """What did not break that was to. Tasks that Airflow ran again after a kill are no fault."""
        tries = [len(file.read_text().splitlines()) for file in (self.folder / "starts").glob("*")]
        print(f"{sum(tries) - len(tries):6} tasks that Airflow ran again, because their scheduler was killed")
        return self._broke + super().complaints(calls, verdict)

    def _leave_in_peace(self) -> None:
        self._over.set()
        self._somebody.join()

    def stop(self) -> None:
        self._leave_in_peace()
        super().stop()
