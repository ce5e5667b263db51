"""Failures of workflow runs, on the test GitHub."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import IO, Any

from calls import Failure, Started
from github_actions import Github
from peer import Failed

HEAD = """name: {name}
run-name: {name} ${{{{ inputs.taskbridge_job }}}}
on:
  {trigger}:
    inputs:
      taskbridge_job: {{ type: string }}
jobs:
"""
DISPATCH = "workflow_dispatch"
CONCURRENCY = "Canceling since a higher priority waiting request for 'deploy-main' exists"
TOO_LONG = "The job running on runner GitHub Actions 7 has exceeded the maximum execution time of 30 minutes."
FORBIDDEN = "Resource not accessible by personal access token"
COMPILE = (
    "echo compiling 41 files; "
    "echo 'src/orders.ts(31,7): error TS2322: Type string is not assignable to type number.'; exit 2"
)
TEST = "[ ${{ matrix.browser }} != firefox ] || { echo 'checkout.spec.ts: expected 3 items, got 2'; exit 1; }; echo ok"
VERBOSE = (
    "for i in $(seq 60); do echo module_$i.c: compiled; done; "
    "echo 'module_60.c:31: error: unknown type name order_t'; exit 2"
)
# The address of a run.
PAGE = "https://github.com/octo-org/"
# Runs wait for somebody here, so that a test can say how they end.
GATE = "production"


def workflow(name: str, jobs: dict[str, Any], trigger: str = DISPATCH) -> str:
    # What is JSON is YAML.
    return HEAD.format(name=name, trigger=trigger) + json.dumps(jobs, indent=2).replace("\n", "\n  ").join(["  ", "\n"])


def job(*steps: tuple[str, str], **more: Any) -> dict[str, Any]:
    return {"runs-on": "ubuntu-latest", "steps": [{"name": name, "run": run} for name, run in steps], **more}


class GithubActions:
    def __init__(self, installed: Path, _work: Path, log: IO[bytes]) -> None:
        self._github = Github(installed, log)
        gated = {"deploy": job(("Deploy", "echo deploying"), environment=GATE)}
        matrix = {"browser": ["chromium", "firefox"]}
        self._made = {
            "shop": self._make(
                compile={"build": job(("Install", "echo installing"), ("Compile", COMPILE))},
                browsers={"test": job(("Test", TEST), strategy={"fail-fast": False, "matrix": matrix})},
                verbose={"build": job(("Compile", VERBOSE))},
                long=gated,
                newer=gated,
                refused=gated,
                broken=gated,
                deleted=gated,
            ),
            # Its logs are gone.
            "archive": self._make(unread={"build": job(("Compile", COMPILE))}),
            # The token may not start anything.
            "closed": self._make(forbidden={"build": job(("Compile", "true"))}),
        }
        nightly = workflow("nightly", {"build": job(("Compile", "true"))}, "schedule")
        self._github.control(
            "change",
            repo=self._made["shop"]["repo"],
            files={
                ".github/workflows/nightly.yml": nightly.replace(
                    "inputs:\n      taskbridge_job: { type: string }", "- cron: 0 0 * * *"
                )
            },
        )
        self._github.control("blobs", repo=self._made["archive"]["repo"], blobs=404)
        denied = {"x-accepted-github-permissions": "actions=write"}
        self._github.control(
            "faults",
            repo=self._made["closed"]["repo"],
            operation="actions/create-workflow-dispatch",
            kind="answer",
            status=403,
            message=FORBIDDEN,
            headers=denied,
        )
        self.examples = [(made["repo"], f"octo-org/{name}") for name, made in self._made.items()]
        self.examples += [(r"/runs/\d+", "/runs/1001"), (r"\brun \d+", "run 1001")]

    def _make(self, **jobs: dict[str, Any]) -> dict[str, str]:
        files = {f".github/workflows/{name}.yml": workflow(name, its) for name, its in jobs.items()}
        made: dict[str, str] = self._github.control("repos", files=files, environments={GATE: {}}, reviewer=False)
        return made

    def config(self) -> str:
        return "".join(
            f'[backends.{name}]\nkind = "github-actions"\nrepository = "{made["repo"]}"\ntoken = "{made["token"]}"\n'
            f'api = "{self._github.url}"\nprogress_calls_per_minute = 600\n'
            for name, made in self._made.items()
        )

    def _ends(self, name: str, **facts: Any) -> Callable[[Started], Awaitable[None]]:
        """Has GitHub end the run of a workflow in this way."""

        def end(run: int) -> None:
            self._github.control("run", repo=self._made["shop"]["repo"], id=run, pending=[], **facts)

        return self._once_waiting(name, end)

    def _once_waiting(self, name: str, act: Callable[[int], None]) -> Callable[[Started], Awaitable[None]]:
        repo = self._made["shop"]["repo"]

        async def meanwhile(started: Started) -> None:
            # The server has seen that it waits.
            seen = await started.seen(lambda status: GATE in (status.statusMessage or ""))
            runs = await asyncio.to_thread(self._github.control, "listed", repo=repo)
            found = [run["id"] for run in runs if run["workflow"] == name and run["status"] == "waiting"]
            if len(found) != 1:
                raise Failed(f"{len(found)} runs of {name} wait: {seen}")
            await asyncio.to_thread(act, found[0])

        return meanwhile

    def _review(self, run: int) -> None:
        comment = "Not before the freeze is over."
        self._github.control(
            "review", repo=self._made["shop"]["repo"], id=run, login="octocat", state="rejected", comment=comment
        )

    def failures(self) -> list[Failure]:
        def target(name: str) -> str:
            return f'target = {{ workflow = "{name}.yml" }}'

        def failure(title: str, name: str, which: str, why: str, what: str, **more: Any) -> Failure:
            return Failure(title, name, which, why, what, config=target(name), **{"backend": "shop", **more})

        completed = {"status": "completed"}
        # GitHub cancels a job whose time is over.
        late = {"name": "deploy", "conclusion": "cancelled", "annotations": [annotation(TOO_LONG)]}
        newer = {"name": "deploy", "conclusion": "cancelled", "annotations": [annotation(CONCURRENCY)]}
        return [
            failure("a step fails", "compile", "step Compile", "error TS2322", PAGE),
            failure(
                "one job of a matrix fails", "browsers", "test (firefox), step Test", "expected 3 items, got 2", PAGE
            ),
            failure("a step prints much before it fails", "verbose", "step Compile", "unknown type name order_t", PAGE),
            failure("there is no such workflow", "missing", "missing.yml", "it does not exist", "correct the name"),
            failure(
                "the workflow cannot be dispatched",
                "nightly",
                "nightly.yml",
                "no `workflow_dispatch`",
                "add it under `on`",
            ),
            failure(
                "the token may not start it",
                "forbidden",
                "forbidden.yml",
                FORBIDDEN,
                "permission actions=write",
                backend="closed",
            ),
            failure(
                "the run takes too long",
                "long",
                "deploy",
                "maximum execution time",
                PAGE,
                meanwhile=self._ends("long", conclusion="cancelled", jobs=[late], **completed),
            ),
            failure(
                "a newer run of its concurrency group begins",
                "newer",
                "deploy",
                "higher priority",
                PAGE,
                meanwhile=self._ends("newer", conclusion="cancelled", jobs=[newer], **completed),
            ),
            failure(
                "the review is rejected",
                "refused",
                f"octocat rejected {GATE}",
                "Not before the freeze",
                PAGE,
                meanwhile=self._once_waiting("refused", self._review),
            ),
            failure(
                "GitHub cannot read the workflow's file",
                "broken",
                "The run",
                "could not be started",
                "check the workflow's file",
                meanwhile=self._ends("broken", conclusion="startup_failure", **completed),
            ),
            failure("the log is gone", "unread", "step Compile", "the status 404", PAGE, backend="archive"),
            failure(
                "the run is deleted",
                "deleted",
                "the run does not exist",
                "it was deleted",
                "its end is not known",
                meanwhile=self._ends("deleted", gone=True),
            ),
        ]

    def stop(self) -> None:
        self._github.stop()


def annotation(message: str) -> dict[str, Any]:
    return {"level": "failure", "path": ".github", "line": 1, "title": "", "message": message}
