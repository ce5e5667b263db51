"""OGC API Processes as an engine of the run: pygeoapi, four tools over as many processes, and what pygeoapi and the
processes say was run. It has no key.
"""

from dataclasses import dataclass
from typing import Any

from http_engine import HttpEngine
from works import Work

STATUSES = {"successful": "SUCCEEDED", "failed": "FAILED", "dismissed": "CANCELLED"}


@dataclass(frozen=True)
class Process(Work):
    may_be_uncertain: bool = True

    def check(self, got: dict[str, Any], label: str, number: int) -> None:
        # pygeoapi deletes a job that is dismissed. A client of 2026-07-28 is told what the bridge sees: no end.
        if self.status != "CANCELLED" or "the engine no longer knows the job" not in (got["text"] or ""):
            super().check(got, label, number)


class Ogc(HttpEngine):
    """With the processes of tests/http/pygeoapi/processes.py."""

    name, preset = "pygeoapi", "ogc-processes"
    works = [
        Process("greet", "repeat"),
        Process("later", "later"),
        Process("fail", "refuse", status="FAILED", tells="out of luck"),
        Process("stop", "wait", status="CANCELLED", shows="accepted", hurries=True),
    ]
    losses = {"start": 0.1, "poll": 0.1, "results": 0.1, "dismiss": 0.3}
    moments = ("start", "results", "dismiss")

    def target(self, work: Work) -> str:
        return f'process = "{work.runs}"'

    def end_of(self, run: str, _kind: str, _label: str) -> tuple[str, Any]:
        status = (self.get(f"/jobs/{run}?f=json") or {"status": "dismissed"})["status"]
        says = self.get(f"/jobs/{run}/results?f=json") if status == "successful" else None
        return STATUSES.get(status, status), says

    def name_of(self, method: str, path: str, _headers: dict[str, str]) -> str:
        if method == "GET":
            return "results" if "/results" in path else "poll"
        return "start" if method == "POST" else "dismiss"
