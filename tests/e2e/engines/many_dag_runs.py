"""A thousand runs of a real Airflow that are in progress: what it costs to watch them, counted at a proxy before Airflow and
in the server's processor time.

    many_dag_runs.py --installed FOLDER --server PROGRAM --work FOLDER [--runs N] [--settled SECONDS] [--minutes N] [--most N]
                     [--percent P]

Exits with 1 if more requests are made in a minute than `--most`, or fewer than one list in two minutes, if the server takes
more of a processor than `--percent`, if Airflow does not have exactly these runs, or if a task is not `working`.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "table"))

from airflow import THROTTLED, name_of  # noqa: E402
from bridge import Bridge, free_port  # noqa: E402
from http_engine import SERVE  # noqa: E402
from many import Client, count, until  # noqa: E402
from many_jobs import processor_time  # noqa: E402
from peer import SECONDS, Failed  # noqa: E402
from proxy import Proxy  # noqa: E402

# Airflow answers a start after a quarter of a second.
AT_A_TIME = 4
# The defaults of the server and of the preset, but for what only a test can need.
CONFIG = """
[server]
listen = "127.0.0.1:{port}"
quick_wait = "0s"
max_polls_per_second = 1000

[auth]
single_user = true

[backends.airflow]
kind = "http"
preset = "airflow-3"
base = "http://127.0.0.1:{proxy}"
auth.exchange = {{ user = "bridge", password = {{ file = "{work}/password" }} }}

[tools.wait]
backend = "airflow"
description = "Waits."
target = {{ dag = "wait" }}
parameters.label = {{ type = "string" }}
"""


def count_runs(port: int, token: str) -> int:
    """How many runs Airflow has that have not ended. Its scheduler leaves some of them queued."""
    url = f"http://127.0.0.1:{port}/api/v2/dags/wait/dagRuns?limit=1&state=queued&state=running"
    request = urllib.request.Request(url, headers={"authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        return int(json.loads(answer.read())["total_entries"])


def is_parsed(port: int, token: str) -> bool:
    try:
        return count_runs(port, token) == 0
    except urllib.error.HTTPError:
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description="Watches many runs of Airflow that are in progress.")
    parser.add_argument("--installed", type=Path, required=True, help="where tests/run puts what it installs")
    parser.add_argument("--server", type=Path, required=True, help="the program of taskbridge")
    parser.add_argument("--work", type=Path, required=True, help="an empty folder for states and a log")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--settled", type=int, default=420, help="for how long runs are young, and polled more often")
    parser.add_argument("--minutes", type=int, default=4)
    parser.add_argument("--most", type=int, default=40)
    parser.add_argument("--percent", type=float, default=1.0)
    options = parser.parse_args()
    work = options.work.absolute()
    (work / "airflow" / "dags").mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("many_dag.py"), work / "airflow" / "dags")
    (work / "password").touch(0o600)
    (work / "password").write_text("secret")
    with (work / "log").open("ab") as log:
        order = [sys.executable, "-B", str(SERVE), "airflow", str(options.installed.absolute() / "http"), str(work / "airflow")]
        airflow = subprocess.Popen(order, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        assert airflow.stdout and airflow.stdin
        word, _, at = airflow.stdout.readline().strip().partition(" ")
        if word != "ready":
            raise Failed("Airflow did not start")
        upstream, token = int(at), (work / "airflow" / "token").read_text()
        until(lambda: is_parsed(upstream, token), "the DAG")
        proxy, port = Proxy(upstream, {}, 0, name_of, THROTTLED), free_port()
        config = work / "taskbridge.toml"
        config.write_text(CONFIG.format(port=port, proxy=proxy.port, work=work))
        bridge = Bridge(options.server.absolute(), config, port, {**os.environ, "XDG_STATE_HOME": str(work / "state")}, log)
        try:
            client, began = Client(bridge.url), time.monotonic()
            with ThreadPoolExecutor(AT_A_TIME) as pool:
                tasks = list(pool.map(lambda number: client.start("wait", str(number)), range(options.runs)))
            until(lambda: count_runs(upstream, token) >= options.runs, "all runs")
            print(f"{options.runs:6} runs after {time.monotonic() - began:.0f} s", flush=True)
            time.sleep(options.settled)
            began, taken = time.monotonic(), processor_time(bridge.pid)
            counts = count(proxy, options.minutes)
            percent = 100 * (processor_time(bridge.pid) - taken) / (time.monotonic() - began)
            states = client.statuses(tasks)
            running = count_runs(upstream, token)
            bridge.stop()
        finally:
            bridge.kill()
            airflow.stdin.close()
            airflow.wait(SECONDS)
    most, lists = max(minute.total() for minute in counts), sum(minute["list"] for minute in counts)
    # A list of ten pages is used for a minute.
    fewest = options.minutes // 2 * options.runs // 100
    print(f"{most:6} requests in the busiest minute; {options.most} are allowed")
    print(f"{lists:6} pages of lists; {fewest} are the fewest")
    print(f"{percent:6.2f} % of a processor; {options.percent} are allowed")
    print(f"{running:6} runs that have not ended; tasks: {dict(states)}")
    right = most <= options.most and lists >= fewest and percent <= options.percent and running == options.runs
    return 0 if right and states == {"working": options.runs} else 1


if __name__ == "__main__":
    sys.exit(main())
