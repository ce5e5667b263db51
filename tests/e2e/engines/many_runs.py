"""A thousand runs that run, over ten workflows of the test GitHub: what it costs the real server to watch them, as the test
GitHub counts it, and what becomes of them while GitHub's limits are reached.

    many_runs.py --installed FOLDER --server PROGRAM --work FOLDER [--runs N] [--workflows N] [--minutes N] [--most N]

Exits with 1 if more requests are made in a minute than `--most`, if fewer than four of five find that nothing has changed, or
if a task says anything but the truth.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "table"))

from bridge import Bridge, free_port  # noqa: E402
from github_actions import Github  # noqa: E402
from many import AT_A_TIME, Client, until  # noqa: E402
from peer import Failed  # noqa: E402

# Looks and lists are apart by a tenth of the time that a run is watched, and by no more from this time on.
SETTLED = 420
# How long a limit holds, and how many runs end meanwhile.
LIMITED_SECONDS = 30
MEANWHILE = 20
WORKFLOW = "on: workflow_dispatch\njobs: {work: {runs-on: ubuntu-latest, steps: [{run: sleep 1}]}}\n"
SECONDARY = {"kind": "answer", "status": 403, "message": "You have exceeded a secondary rate limit"}

# The defaults of the server, but for what only a test can need.
CONFIG = """
[server]
listen = "127.0.0.1:{port}"
quick_wait = "0s"
max_polls_per_second = 1000

[auth]
single_user = true

[backends.github]
kind = "github-actions"
repository = "{repo}"
token = "{token}"
api = "{url}"
"""
TOOL = """
[tools.{name}]
backend = "github"
description = "Follows a run."
target = {{ workflow = "{name}.yml", attach = "{{{{ label }}}}" }}
parameters.label = {{ type = "string" }}
"""


def asked(github: Github, repo: str) -> Counter[str]:
    """The requests since the last time: `operation status`."""
    return Counter(f"{one['operation']} {one['status']}" for one in github.control("asked", repo=repo))


def count(github: Github, repo: str, minutes: int) -> list[Counter[str]]:
    """The requests in each of so many minutes."""
    asked(github, repo)
    counts = []
    for _ in range(minutes):
        time.sleep(60)
        counts.append(asked(github, repo))
        print(f"{counts[-1].total():6} requests in a minute: {dict(counts[-1])}", flush=True)
    return counts


def limited(github: Github, repo: str, client: Client, tasks: dict[int, str], limit: str) -> None:
    """While GitHub says that it is too much, ends are seen later, and nothing else changes."""
    running = [run for run, task in tasks.items() if client.status(task) == "working"]
    until_then = {"remaining": 0, "reset": int(time.time()) + LIMITED_SECONDS}
    if limit == "primary":
        github.control("change", repo=repo, token=until_then)
    else:
        headers = {"retry-after": str(LIMITED_SECONDS)}
        github.control("faults", repo=repo, operation="actions/list-workflow-runs", **SECONDARY, headers=headers)
    asked(github, repo)
    for run in running[:MEANWHILE]:
        github.control("run", repo=repo, id=run, status="completed", conclusion="success")
    time.sleep(LIMITED_SECONDS)
    refused = asked(github, repo)
    github.control("change", repo=repo, token={"remaining": 5000})
    ended = [tasks[run] for run in running[:MEANWHILE]]
    until(lambda: client.statuses(ended) == {"completed": MEANWHILE}, f"{MEANWHILE} ends after the {limit} limit")
    rest = client.statuses([tasks[run] for run in running[MEANWHILE:]])
    if rest != {"working": len(running) - MEANWHILE}:
        raise Failed(f"tasks of runs that run are {rest}")
    print(f"{refused.total():6} requests in {LIMITED_SECONDS} s of a {limit} limit: {dict(refused)}; all ends were told after it")


def watch(options: argparse.Namespace, github: Github, place: Any) -> list[Counter[str]]:
    work, log = place
    names = [f"busy_{number}" for number in range(options.workflows)]
    made = github.control("repos", files={f".github/workflows/{name}.yml": WORKFLOW for name in names})
    repo, port = made["repo"], free_port()
    config = work / "taskbridge.toml"
    tools = "".join(TOOL.format(name=name) for name in names)
    config.write_text(CONFIG.format(port=port, url=github.url, **made) + tools)
    bridge = Bridge(options.server.absolute(), config, port, {**os.environ, "XDG_STATE_HOME": str(work / "state")}, log)
    try:
        client = Client(bridge.url)
        each = options.runs // options.workflows
        runs = [(name, run) for name in names for run in github.control("runs", repo=repo, workflow=f"{name}.yml", count=each)]
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            started = pool.map(lambda one: client.start(one[0], str(one[1])), runs)
            tasks = dict(zip((run for _, run in runs), started, strict=True))
        print(f"{len(tasks):6} runs of {len(names)} workflows are followed", flush=True)
        time.sleep(SETTLED)
        counts = count(github, repo, options.minutes)
        for limit in ("primary", "secondary"):
            limited(github, repo, client, tasks, limit)
        if breaches := github.control("breaches", repo=repo):
            raise Failed(f"GitHub's description was breached: {breaches}")
        bridge.stop()
        return counts
    finally:
        bridge.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description="Watches many runs that run.")
    parser.add_argument("--installed", type=Path, required=True, help="where tests/run puts what it installs")
    parser.add_argument("--server", type=Path, required=True, help="the program of taskbridge")
    parser.add_argument("--work", type=Path, required=True, help="an empty folder for states and a log")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--workflows", type=int, default=10)
    parser.add_argument("--minutes", type=int, default=4)
    parser.add_argument("--most", type=int, default=30)
    options = parser.parse_args()
    work = options.work.absolute()
    with (work / "log").open("ab") as log:
        github = Github(options.installed.absolute(), log)
        try:
            counts = watch(options, github, (work, log))
        finally:
            github.stop()
    most = max(minute.total() for minute in counts)
    all_of = sum(counts, Counter[str]())
    unchanged = sum(number for what, number in all_of.items() if what.endswith(" 304")) / all_of.total()
    print(json.dumps({"most in a minute": most, "allowed": options.most, "unchanged": round(unchanged, 3)}))
    return 0 if most <= options.most and unchanged > 0.8 else 1


if __name__ == "__main__":
    sys.exit(main())
