"""GitHub Actions as an engine of the run: the test GitHub behind a proxy that loses replies, repositories with the
workflows, somebody else who gives reviews and renames repositories, and what the test GitHub itself says was run.
"""

import json
import subprocess
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from callers import Calls
from jobs import Job, Verdict
from lag import LAG
from peer import SECONDS, Failed
from proxy import Proxy
from workflows import MISSING, Workflow, workflows

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
REPOSITORIES = {"own": (True, None), "other": (False, "approved"), "refused": (False, "rejected"), **dict.fromkeys(MISSING, (True, None))}
# Requests that each token may make.
ALLOWANCE = 1_000_000
# One of them is renamed after so many seconds, and the next after as many more.
RENAMED_EVERY = 15
# How long after its run a task may end where logs and artifacts are missing, in seconds. After a kill, they are tried again for as long.
LATEST = 60
# What becomes of deliveries, one after the other.
WAYS = ["sent", "sent", "lost", "doubled", "late"]
SECRET = "only GitHub knows"


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
    # How many there are over one store.
    bridges = 2

    def __init__(self, installed: Path, _work: Path, log: IO[bytes], seed: int) -> None:
        self.moments = MOMENTS
        self._github = Github(installed, log)
        self.proxies = {"github": Proxy(self._github.port, LOSSES, seed, name_of, THROTTLED)}
        self.works: list[Workflow] = workflows()
        self._made = {name: self._make(name, reviewer) for name, (reviewer, _) in REPOSITORIES.items()}
        for name, blobs in MISSING.items():
            self._github.control("blobs", repo=self._made[name]["repo"], blobs=blobs)
        self.renamed = 0
        self._over = threading.Event()
        self._somebody = [threading.Thread(target=self._review), threading.Thread(target=self._rename)]
        for thread in self._somebody:
            thread.start()

    def _make(self, name: str, reviewer: bool) -> dict[str, str]:
        files = {f".github/workflows/{work.name}.yml": work.text for work in self.works if work.repository == name}
        made = self._github.control("repos", files=files, environments={"production": {}}, reviewer=reviewer, lag=LAG * 1000)
        # The bridge polls far more often here than the allowance of an hour is meant for.
        self._github.control("change", repo=made["repo"], token={"remaining": ALLOWANCE})
        return made

    def _review(self) -> None:
        """Somebody else gives the reviews that the bridge's user may not give."""
        while not self._over.wait(0.5):
            for name, (_, state) in REPOSITORIES.items():
                repo = self._made[name]["repo"]
                for run in self._github.control("listed", repo=repo) if state else []:
                    if run["status"] == "waiting":
                        self._github.control("review", repo=repo, id=run["id"], login="octocat", state=state)

    def _rename(self) -> None:
        """Somebody renames one repository after the other, and in time each of them again."""
        repos = [made["repo"] for made in self._made.values()]
        while not self._over.wait(RENAMED_EVERY):
            around, at = divmod(self.renamed, len(repos))
            # The test GitHub finds it by all names that it ever had.
            self._github.control("rename", repo=repos[at], to=f"{repos[at]}-renamed-{around}")
            self.renamed += 1

    def config(self) -> str:
        """The backends and tools of the bridge."""
        url = f"http://127.0.0.1:{self.proxies['github'].port}"
        parts = [
            f'[backends.{name}]\nkind = "github-actions"\nrepository = "{made["repo"]}"\ntoken = "{made["token"]}"\n'
            f'api = "{url}"\ncall_timeout = "2900ms"\nprogress_calls_per_minute = 600\nwebhook_secret = "{SECRET}"\n'
            # So that a server reads the workflows when it begins. The tools below stand before those that it finds.
            f'[backends.{name}.discover]\nevery = "1h"\n'
            for name, made in self._made.items()
        ]
        parts += [
            f'[tools.{work.name}]\nbackend = "{work.repository}"\ndescription = "Runs {work.name}."\n'
            f'target = {{ workflow = "{work.name}.yml" }}\nparameters.label = {{ type = "string" }}\n'
            'parameters.number = { type = "integer" }\n'
            # How long a run that nobody can find is looked for.
            'settle_window = "20s"\n'
            for work in self.works
        ]
        return "".join(parts)

    def post_to(self, hooks: list[str]) -> None:
        """Has webhooks posted to all of these, so that one at least reaches a bridge that does not watch the run."""
        for name, made in self._made.items():
            urls = [f"{hook}/{name}" for hook in hooks]
            self._github.control("webhook", repo=made["repo"], url=urls, secret=SECRET, ways=WAYS)

    def faults(self) -> list[tuple[int, str]]:
        """What else broke."""
        counts: Counter[str] = Counter()
        for made in self._made.values():
            counts.update(self._github.control("broken", repo=made["repo"]))
        return [
            (self._answers()[202], "deliveries of webhooks taken, each posted to both bridges"),
            (counts["unknown"], f"requests about runs that were unknown for the first {LAG} s"),
            (counts["old"], f"lists that were up to {LAG} s old"),
            (self.renamed, "times a repository was renamed"),
            (counts["blobs"], "links to logs and artifacts that were missing"),
        ]

    def _answers(self) -> Counter[int]:
        """The statuses that deliveries were answered with; 0 where nobody listened."""
        repos = [made["repo"] for made in self._made.values()]
        return Counter(status for repo in repos for status in self._github.control("deliveries", repo=repo))

    def jobs(self) -> Iterator[Job]:
        """What was run, as the test GitHub itself says, once all of it has ended."""
        for name, made in self._made.items():
            for run in self._ended(made["repo"]):
                status = CONCLUSIONS.get(run["conclusion"], str(run["conclusion"]))
                says = json.loads(run["output"]) if run["output"] and name not in MISSING else None
                ended = datetime.fromisoformat(run["updated_at"]).timestamp()
                yield Job(run["workflow"], run["inputs"]["label"], status, says, f"run {run['id']}", ended)

    def _ended(self, repo: str) -> list[dict[str, Any]]:
        """The runs of a repository. One of which nobody knows whether it was started may still go on."""
        end = time.monotonic() + SECONDS
        while True:
            runs = self._github.control("listed", repo=repo)
            if time.monotonic() > end or all(run["status"] in ("completed", "waiting") for run in runs):
                return runs
            time.sleep(0.5)

    def complaints(self, calls: Calls, verdict: Verdict) -> list[str]:
        """Breaches of GitHub's own description, by the bridge or by the test GitHub; deliveries that were refused; runs that carry the mark
        of a task which is uncertain; and ends that came late."""
        found = [self._github.control("breaches", repo=made["repo"]) for made in self._made.values()]
        faults = [f"GitHub's description was breached: {json.dumps(breach)}" for breaches in found for breach in breaches]
        faults += [f"{number} deliveries were answered with {status}" for status, number in self._answers().items() if status not in (202, 0)]
        runs = {job.label: job for job in self.jobs()}
        faults += [f"{label} was told as uncertain, and {runs[label]} is there" for label in verdict.uncertain if label in runs]
        return faults + list(late(calls, runs))

    def stop(self) -> None:
        self._over.set()
        for thread in self._somebody:
            thread.join()
        self._github.stop()


def late(calls: Calls, runs: dict[str, Job]) -> Iterator[str]:
    """Ends that were told too late, where logs and artifacts are missing."""
    longest = 0.0
    for call in calls.all:
        run = runs.get(call.labels[-1]) if call.got and "ended" in call.got else None
        if not call.got or not run:
            continue
        told = call.got["ended"]
        since = max((at for at in (run.ended, *calls.kills) if at < told), default=told)
        longest = max(longest, told - run.ended)
        if told - since > LATEST:
            yield f"the end of {run.label} was told after {told - run.ended:.0f} s, {told - since:.0f} s after the last kill"
    print(f"{longest:6.0f} s at most from the end of a run to that of its task, where logs and artifacts are missing")


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
