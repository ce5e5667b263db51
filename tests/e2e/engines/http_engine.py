"""[`HttpEngine`]: an engine of tests/http as an engine of the run, by the http adapter. It stands behind a proxy that loses
replies. What differs from one to the next is in a class of each.
"""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from callers import Calls
from jobs import Job, Verdict
from peer import SECONDS, Failed
from proxy import Proxy, Refusal
from works import Work

SERVE = Path(__file__).resolve().parents[2] / "http/serve.py"
TYPES = {str: "string", int: "integer"}


class HttpEngine:
    # Of the engine's folder in tests/http, and of the preset.
    name: str
    preset: str
    works: list[Work]
    # How likely the reply to a request is lost, by what it does to lose it.
    losses: dict[str, float]
    # Requests at which a kill hurts most: served, and nobody hears of it.
    moments: tuple[str, ...]
    throttled: Refusal = (429, b"{}", "content-type: application/json\r\n")
    # How many bridges there are over one store.
    bridges = 2
    # An answer may take seconds on a busy machine.
    pace = {"lease": "30s", "quickest": "1s", "slowest": "4s"}
    call_timeout = "14s"
    # What else is in the tables of the backend and of each tool.
    backend = tool = ""
    environment: dict[str, str] = {}

    def __init__(self, installed: Path, work: Path, log: IO[bytes], seed: int) -> None:
        self.folder = work / self.name
        self.folder.mkdir()
        self.prepare()
        self._process = subprocess.Popen(
            [sys.executable, "-B", str(SERVE), self.name, str(installed / "http"), str(self.folder)],
            env={**os.environ, **self.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        word, _, self.port = self._line().partition(" ")
        if word != "ready":
            raise Failed(f"{self.name} did not start")
        self.proxies = {self.name: Proxy(int(self.port), self.losses, seed, self.name_of, self.throttled)}

    def prepare(self) -> None:
        """What is done in the folder before the engine starts."""

    def _line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def order(self, order: str) -> None:
        """Kills or starts a part of the engine: see serve.py."""
        assert self._process.stdin
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()
        said = self._line()
        if said != "ok":
            raise Failed(f"{order}: {said or f'{self.name} ended'}")

    def target(self, work: Work) -> str:
        """The target of a tool, as TOML."""
        raise NotImplementedError

    def name_of(self, method: str, path: str, headers: dict[str, str]) -> str:
        """What a request is, in a word."""
        raise NotImplementedError

    def end_of(self, run: str, kind: str, label: str) -> tuple[str, Any]:
        """The status of a run as the engine says, and its result."""
        raise NotImplementedError

    def config(self) -> str:
        """The backend and the tools of the bridge."""
        base = f"http://127.0.0.1:{self.proxies[self.name].port}"
        parts = [
            f'[backends.engine]\nkind = "http"\npreset = "{self.preset}"\nbase = "{base}"\n'
            f'call_timeout = "{self.call_timeout}"\n{self.backend}'
        ]
        for work in self.works:
            parts.append(
                f'[tools.{work.name}]\nbackend = "engine"\ndescription = "Runs {work.runs}."\n'
                f"target = {{ {self.target(work)} }}\n{self.tool}"
            )
            given = work.arguments("", 0).items()
            parts += [f'parameters.{name} = {{ type = "{TYPES[type(value)]}" }}\n' for name, value in given]
        return "".join(parts)

    def post_to(self, hooks: list[str]) -> None:
        """These engines post nothing."""

    def faults(self) -> list[tuple[int, str]]:
        """What else broke."""
        return []

    def runs(self) -> Iterator[tuple[str, str, str]]:
        """The id of each run that started, its tool and its label. The jobs write these lines."""
        for file in sorted((self.folder / "starts").iterdir()):
            for line in file.read_text().splitlines():
                run, kind, label = line.split()
                yield run, kind, label

    def jobs(self) -> Iterator[Job]:
        """What was run, as the engine itself says."""
        for run, kind, label in self.runs():
            yield Job(kind, label, *self.end_of(run, kind, label), run)

    def get(self, path: str, headers: dict[str, str] | None = None) -> Any:
        """The engine's answer, without the proxy. `None` if there is no such thing."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return None

    def complaints(self, _calls: Calls, verdict: Verdict) -> list[str]:
        """Of an engine without a key, a start whose reply is lost is uncertain: but not nearly all of them."""
        if 4 * len(verdict.uncertain) > 3 * verdict.accepted:
            return [f"{len(verdict.uncertain)} of {verdict.accepted} calls are uncertain"]
        return []

    def stop(self) -> None:
        """It ends with its input."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(SECONDS)
