"""Two thousand executions that run, over twenty state machines: what it costs to watch them, counted at a proxy between
the real server and a stand-in for AWS, and what becomes of them while the account is throttled.

    many.py --standins FOLDER --server PROGRAM --work FOLDER [--executions N] [--machines N] [--minutes N] [--most N]

Exits with 1 if more calls are made in a minute than `--most`, or a task says anything but the truth.
"""

import argparse
import json
import os
import sys
import time
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "table"))

from aws import Standin  # noqa: E402
from bridge import Bridge, free_port  # noqa: E402
from machines import ROLE, arn  # noqa: E402
from peer import SECONDS, Failed  # noqa: E402
from proxy import Proxy  # noqa: E402
from step_functions import THROTTLED, name_of  # noqa: E402

# The intervals between looks and lists are a tenth of an execution's age, and do not grow any more at this one.
SETTLED = 630
# For how long the account is throttled, and how many executions are stopped and started meanwhile.
THROTTLED_SECONDS = 60
MEANWHILE = 20
VERSION = "2026-07-28"
AT_A_TIME = 16
HOURS = 6 * 3600

# The defaults of the server, but for what only a test can need.
CONFIG = """
[server]
listen = "127.0.0.1:{port}"
quick_wait = "0s"
max_polls_per_second = 1000

[auth]
single_user = true

[backends.aws]
kind = "step-functions"
region = "us-east-1"
profile = "tester"
config_file = "aws"
endpoint = "http://127.0.0.1:{proxy}"
"""
TOOL = """
[tools.{name}]
backend = "aws"
description = "Waits."
target = {{ state_machine = "{arn}" }}
parameters.label = {{ type = "string" }}
"""


class Client:
    """Makes requests of 2026-07-28."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, method: str, about: str, **params: Any) -> dict[str, Any]:
        extensions = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientCapabilities": extensions,
        }
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": VERSION,
            "mcp-method": method,
            "mcp-name": about,
        }
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        with urllib.request.urlopen(urllib.request.Request(self._url, body, headers), timeout=SECONDS) as answer:
            text = answer.read().decode()
        # What takes a moment comes as the last event of a stream.
        said = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
        return json.loads(said[-1] if said else text)["result"]

    def start(self, tool: str, label: str) -> str:
        return self.ask("tools/call", tool, name=tool, arguments={"label": label})["taskId"]

    def status(self, task: str) -> str:
        return self.ask("tasks/get", task, taskId=task)["status"]

    def statuses(self, tasks: list[str]) -> Counter[str]:
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            return Counter(pool.map(self.status, tasks))


class Crowd:
    """The executions, by their labels: each with its task, and its name at the stand-in."""

    def __init__(self, client: Client, standin: Standin, machines: list[str]) -> None:
        self._client, self._standin, self._machines = client, standin, machines
        self.tasks: dict[str, str] = {}

    def start(self, count: int) -> None:
        labels = [str(len(self.tasks) + at) for at in range(count)]
        tools = [self._machines[int(label) % len(self._machines)] for label in labels]
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            self.tasks.update(zip(labels, pool.map(self._client.start, tools, labels), strict=True))

    def running(self) -> dict[str, str]:
        """What runs at the stand-in, by label. Fails if a label is there twice."""
        found = [
            (json.loads(seen["input"])["label"], seen["executionArn"])
            for seen in self._standin.executions()
            if seen["status"] == "RUNNING"
        ]
        if len({label for label, _ in found}) < len(found):
            raise Failed("a call has two executions")
        return dict(found)

    def until_all_run(self, count: int) -> dict[str, str]:
        return until(lambda: found if len(found := self.running()) >= count else None, f"{count} executions that run")


def until(seen: Any, what: str) -> Any:
    for _ in range(10 * SECONDS):
        if found := seen():
            return found
        time.sleep(1)
    raise Failed(f"never seen: {what}")


def count(proxy: Proxy, minutes: int) -> list[Counter[str]]:
    """The calls in each of so many minutes."""
    counts = []
    for _ in range(minutes):
        before = proxy.asked.copy()
        time.sleep(60)
        counts.append(proxy.asked - before)
        print(f"{counts[-1].total():6} calls in a minute: {dict(counts[-1])}", flush=True)
    return counts


def throttled(proxy: Proxy, crowd: Crowd, client: Client, running: dict[str, str], standin: Standin) -> None:
    """While nothing is answered but that there are too many requests: ends are seen later, starts are made later, once,
    and nothing else changes."""
    stopped = list(running)[:MEANWHILE]
    before = proxy.refused
    proxy.throttled = True
    for label in stopped:
        standin.call("StopExecution", executionArn=running[label])
    crowd.start(MEANWHILE)
    time.sleep(THROTTLED_SECONDS)
    proxy.throttled = False
    print(f"{proxy.refused - before:6} calls refused in {THROTTLED_SECONDS} s", flush=True)
    all_of = {"cancelled": MEANWHILE, "working": len(crowd.tasks) - MEANWHILE}
    until(lambda: client.statuses(list(crowd.tasks.values())) == all_of, f"tasks that are {all_of}")
    wrong = [label for label in stopped if client.status(crowd.tasks[label]) != "cancelled"]
    now = crowd.until_all_run(len(crowd.tasks) - MEANWHILE)
    if wrong or set(now) != set(crowd.tasks) - set(stopped):
        raise Failed(f"not told that they were stopped: {wrong}; running: {len(now)}")
    print(f"{MEANWHILE:6} stopped and as many started meanwhile: each is told so, once, and nothing else changed")


def main() -> int:
    parser = argparse.ArgumentParser(description="Watches many executions that run.")
    parser.add_argument("--standins", type=Path, required=True)
    parser.add_argument("--server", type=Path, required=True, help="the program of taskbridge")
    parser.add_argument("--work", type=Path, required=True, help="an empty folder for states and a log")
    parser.add_argument("--executions", type=int, default=2000)
    parser.add_argument("--machines", type=int, default=20)
    parser.add_argument("--minutes", type=int, default=4)
    parser.add_argument("--most", type=int, default=40)
    options = parser.parse_args()
    work = options.work.absolute()
    with (work / "log").open("ab") as log:
        standin = Standin("ministack", options.standins.absolute(), work / "ministack", log)
        proxy = Proxy(standin.port, {}, 0, name_of, THROTTLED)
        machines = [f"busy_{number}" for number in range(options.machines)]
        waits = json.dumps({"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": HOURS, "End": True}}})
        for name in machines:
            standin.call("CreateStateMachine", name=name, definition=waits, roleArn=ROLE)
        port = free_port()
        config = work / "taskbridge.toml"
        tools = "".join(TOOL.format(name=name, arn=arn(name)) for name in machines)
        config.write_text(CONFIG.format(port=port, proxy=proxy.port) + tools)
        (work / "aws").write_text("[profile tester]\naws_access_key_id = AKIATEST\naws_secret_access_key = none\n")
        env = {**os.environ, "XDG_STATE_HOME": str(work / "state")}
        bridge = Bridge(options.server.absolute(), config, port, env, log)
        try:
            client = Client(bridge.url)
            crowd = Crowd(client, standin, machines)
            began = time.monotonic()
            crowd.start(options.executions)
            running = crowd.until_all_run(options.executions)
            print(f"{len(running):6} executions of {len(machines)} machines run after {time.monotonic() - began:.0f} s")
            time.sleep(SETTLED)
            counts = count(proxy, options.minutes)
            throttled(proxy, crowd, client, running, standin)
            bridge.stop()
        finally:
            bridge.kill()
            standin.stop()
    most = max(minute.total() for minute in counts)
    print(f"{most:6} calls in the busiest minute; {options.most} are allowed")
    return 1 if most > options.most else 0


if __name__ == "__main__":
    sys.exit(main())
