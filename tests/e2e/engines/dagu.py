"""Dagu as an engine of the run: six tools over five DAGs, and what Dagu itself and the DAGs say was run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from http_engine import HttpEngine
from works import Work

RECORD = """params:
  - label: none
  - kind: none
  - number: 0
steps:
  - name: record
    command: sh -c 'echo "$0 $1 $2" >> STARTS/$0' ${DAG_RUN_ID} ${kind} ${label}
"""
SAY = """  - name: say
    command: echo ${kind} ${label} ${number}
    output: SAID
"""
GATE = """  - name: gate
    type: hitl
    config: {prompt: What is your name?, input: [name], required: [name]}
"""
DAGS = {
    "greet": SAY,
    "later": "  - name: wait\n    command: sleep 2\n" + SAY,
    "fail": "  - name: fail\n    command: sh -c 'exit 3'\n",
    "ask": GATE + SAY.replace("${number}", "${number} ${name}"),
}
SLEEP = "  - name: sleep\n    command: sleep 900\n"
STATUSES = {"succeeded": "SUCCEEDED", "failed": "FAILED", "rejected": "FAILED", "aborted": "CANCELLED"}


@dataclass(frozen=True)
class Dag(Work):
    def result(self, label: str, number: int) -> Any:
        return {"said": " ".join([self.name, label, str(number), *self.says.values()])}


@dataclass(frozen=True)
class OwnDag(Dag):
    """A stop can reach another run of the same DAG, so each call has a DAG of its own."""

    dags: Path = Path()

    def arguments(self, label: str, number: int) -> dict[str, Any]:
        if label:
            write(self.dags, f"{self.name}-{label}", SLEEP)
        return super().arguments(label, number)


class Dagu(HttpEngine):
    name = preset = "dagu"
    losses = {"start": 0.2, "poll": 0.1, "list": 0.1, "outputs": 0.1, "approve": 0.3, "reject": 0.3, "stop": 0.3}
    moments = ("start", "start", "approve", "stop")

    def prepare(self) -> None:
        dags = self.folder / "dags"
        dags.mkdir()
        (self.folder / "starts").mkdir()
        for name, steps in DAGS.items():
            write(dags, name, steps)
        self.works = [
            Dag("greet", "greet"),
            Dag("later", "later"),
            Dag("fail", "fail", status="FAILED", tells="exit status 3"),
            Dag("ask", "ask", {"name": "Ada"}, asks=True),
            Dag("refuse", "ask", status="FAILED", tells="gate", accepts=False, asks=True),
            OwnDag("stop", "stop-{{ label }}", status="CANCELLED", shows="sleep", hurries=True, dags=dags),
        ]

    def target(self, work: Work) -> str:
        return f'dag = "{work.runs}"'

    def end_of(self, run: str, kind: str, label: str) -> tuple[str, Any]:
        dag = next(work.runs for work in self.works if work.name == kind).replace("{{ label }}", label)
        path = f"/api/v2/dag-runs/{dag}/{run}"
        status = self.get(path)["dagRunDetails"]["statusLabel"]
        says = self.get(f"{path}/outputs")["outputs"] if status == "succeeded" else None
        return STATUSES.get(status, status), says

    def name_of(self, method: str, path: str, _headers: dict[str, str]) -> str:
        # api, v2, dag-runs, DAG, RUN, ..
        parts = path.partition("?")[0].strip("/").split("/")
        if method == "POST" or len(parts) > 5:
            return parts[-1]
        return "poll" if len(parts) == 5 else "list"


def write(dags: Path, name: str, steps: str) -> None:
    text = RECORD.replace("STARTS", str(dags.parent / "starts")) + steps
    (dags / f"{name}.yaml").write_text(text)
