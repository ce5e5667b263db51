"""GitHub Actions as an engine of the run: the test GitHub behind a proxy that loses replies, a repository with the
workflows, somebody else who gives reviews, and what the test GitHub itself says was run.
"""

import json
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from callers import Call
from jobs import Job, Verdict
from peer import SECONDS, Failed
from proxy import Proxy
from workflows import Workflow, workflows

SERVE = Path(__file__).resolve().parents[2] / "github/serve.mjs"
# How likely the reply to a request is lost, by what it does to lose it.
LOSSES = {
    "dispatch": 0.2,
    "runs": 0.1,
    "run": 0.1,
    "jobs": 0.1,
    "file": 0.1,
    "review": 0.3,
    "cancel": 0.3,
}
# Requests at which a kill hurts most: served, and nobody hears of it.
MOMENTS = ("dispatch", "dispatch", "dispatch", "review", "cancel")
# What is asked for by the last part of a path.
POSTS = {"dispatches": "dispatch", "pending_deployments": "review", "cancel": "cancel"}
CONCLUSIONS = {"success": "SUCCEEDED", "failure": "FAILED", "cancelled": "CANCELLED"}
REFUSAL = b'{"message": "You have exceeded a secondary rate limit", "documentation_url": "", "status": "403"}'
# As GitHub says that it is too much, and for how long.
THROTTLED = (403, REFUSAL, "retry-after: 1\r\n")

# The repositories: whether the bridge's user may review there, and what somebody else says who may.
REPOSITORIES = {"own": (True, None), "other": (False, "approved"), "refused": (False, "rejected")}


class Github:
    """The test GitHub, running."""

    def __init__(self, installed: Path, log: IO[bytes]) -> None:
        self._process = subprocess.Popen(
            ["node", str(SERVE), str(installed / "github")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert self._process.stdout
        word, _, port = self._process.stdout.readline().strip().partition(" ")
        if word != "ready":
            raise Failed("the test GitHub did not start")
        self.port = int(port)
        self.url = f"http://127.0.0.1:{port}"

    def control(self, name: str, **body: Any) -> Any:
        """Asks for something that is not GitHub's."""
        request = urllib.request.Request(f"{self.url}/_test/{name}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return json.loads(answer.read() or b"null")

    def stop(self) -> None:
        """It ends with its input."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(SECONDS)


class GithubActions:
    def __init__(self, installed: Path, _work: Path, log: IO[bytes], seed: int) -> None:
        self.moments = MOMENTS
        self._github = Github(installed, log)
        self.proxies = {"github": Proxy(self._github.port, LOSSES, seed, name_of, THROTTLED)}
        self.works: list[Workflow] = workflows()
        self._made = {name: self._make(name, reviewer) for name, (reviewer, _) in REPOSITORIES.items()}
        self._over = threading.Event()
        self._somebody = threading.Thread(target=self._review)
        self._somebody.start()

    def _make(self, name: str, reviewer: bool) -> dict[str, str]:
        files = {f".github/workflows/{work.name}.yml": work.text for work in self.works if work.repository == name}
        return self._github.control("repos", files=files, environments={"production": {}}, reviewer=reviewer)

    def _review(self) -> None:
        """Somebody else gives the reviews that the bridge's user may not give."""
        while not self._over.wait(0.5):
            for name, (_, state) in REPOSITORIES.items():
                repo = self._made[name]["repo"]
                for run in self._github.control("listed", repo=repo) if state else []:
                    if run["status"] == "waiting":
                        self._github.control("review", repo=repo, id=run["id"], login="octocat", state=state)

    def config(self) -> str:
        """The backends and tools of the bridge."""
        url = f"http://127.0.0.1:{self.proxies['github'].port}"
        parts = [
            f'[backends.{name}]\nkind = "github-actions"\nrepository = "{made["repo"]}"\ntoken = "{made["token"]}"\n'
            f'api = "{url}"\ncall_timeout = "2900ms"\nprogress_calls_per_minute = 600\n'
            # So that a server reads the workflows when it begins. The tools below stand before those that it finds.
            f'[backends.{name}.discover]\nevery = "1h"\n'
            for name, made in self._made.items()
        ]
        parts += [
            f'[tools.{work.name}]\nbackend = "{work.repository}"\ndescription = "Runs {work.name}."\n'
            f'target = {{ workflow = "{work.name}.yml" }}\nparameters.label = {{ type = "string" }}\n'
            'parameters.number = { type = "integer" }\n'
            # How long a run that nobody can find is looked for.
            'settle_window = "10s"\n'
            for work in self.works
        ]
        return "".join(parts)

    def jobs(self) -> Iterator[Job]:
        """What was run, as the test GitHub itself says, once all of it has ended."""
        for made in self._made.values():
            for run in self._ended(made["repo"]):
                status = CONCLUSIONS.get(run["conclusion"], str(run["conclusion"]))
                says = json.loads(run["output"]) if run["output"] else None
                yield Job(run["workflow"], run["inputs"]["label"], status, says, f"run {run['id']}")

    def _ended(self, repo: str) -> list[dict[str, Any]]:
        """The runs of a repository. One of which nobody knows whether it was started may still go on."""
        end = time.monotonic() + SECONDS
        while True:
            runs = self._github.control("listed", repo=repo)
            if time.monotonic() > end or all(run["status"] in ("completed", "waiting") for run in runs):
                return runs
            time.sleep(0.5)

    def complaints(self, _calls: list[Call], _verdict: Verdict) -> list[str]:
        """Breaches of GitHub's own description, by the bridge or by the test GitHub."""
        found = [self._github.control("breaches", repo=made["repo"]) for made in self._made.values()]
        return [json.dumps(breach) for breaches in found for breach in breaches]

    def stop(self) -> None:
        self._over.set()
        self._somebody.join()
        self._github.stop()


def name_of(method: str, path: str, _headers: dict[str, str]) -> str:
    """What a request is, in a word."""
    path = path.partition("?")[0]
    if method == "POST":
        return POSTS.get(path.rpartition("/")[2], "other")
    ends = {"runs": "runs", "jobs": "jobs"}
    last = path.rpartition("/")[2]
    if "/contents/" in path:
        return "file"
    return ends.get(last, "run" if last.isdecimal() and "/runs/" in path else "other")
