"""Five thousand jobs that wait or run on a Slurm cluster whose node is oversubscribed: what it costs to watch them, counted at Slurm's
commands and in the server's processor time.

    many_jobs.py --server PROGRAM --work FOLDER [--jobs N] [--cpus N] [--settled SECONDS] [--minutes N] [--most N] [--percent P]

Exits with 1 if more commands are run in a minute than `--most`, or in any of them no squeue, if the server takes more of a processor than
`--percent`, or if less than two of three processors run jobs.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "table"))

from bridge import Bridge, free_port  # noqa: E402
from many import AT_A_TIME, Client, until  # noqa: E402
from peer import SECONDS, Failed  # noqa: E402
from slurm import SERVE  # noqa: E402

# The defaults of the server and of the adapter, but for what only a test can need.
CONFIG = """
[server]
listen = "127.0.0.1:{port}"
quick_wait = "0s"
max_polls_per_second = 1000

[auth]
single_user = true

[backends.slurm]
kind = "slurm"
commands_dir = "{folder}/bin"
jobs_dir = "{work}/jobs"

[tools.waits]
backend = "slurm"
description = "Waits."
target = {{ script = "{work}/waits.sh" }}
parameters.label = {{ type = "string" }}
"""


def calls(folder: Path) -> Counter[str]:
    """All calls of Slurm's commands so far, by name."""
    records = (folder / "calls").read_bytes().split(b"\x1e")[1:]
    return Counter(record.split(b"\x1f")[0].decode() for record in records)


def processor_time(pid: int) -> float:
    """What a process itself has taken, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(options: argparse.Namespace, folder: Path, bridge: Bridge) -> tuple[int, int, float]:
    """The most commands in a minute, the fewest looks at the queue, and the share of a processor that the server took, in percent."""
    most, looks, began, taken = 0, [], time.monotonic(), processor_time(bridge.pid)
    for _ in range(options.minutes):
        before = calls(folder)
        time.sleep(60)
        counts = calls(folder) - before
        most = max(most, counts.total())
        looks.append(counts["squeue"])
        print(f"{counts.total():6} calls in a minute: {dict(counts)}", flush=True)
    return most, min(looks), 100 * (processor_time(bridge.pid) - taken) / (time.monotonic() - began)


def main() -> int:
    parser = argparse.ArgumentParser(description="Watches many jobs that wait or run.")
    parser.add_argument("--server", type=Path, required=True, help="the program of taskbridge")
    parser.add_argument("--work", type=Path, required=True, help="an empty folder for states and a log")
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--cpus", type=int, default=300)
    parser.add_argument("--settled", type=int, default=150, help="for how long jobs are young, and looked at more often")
    parser.add_argument("--minutes", type=int, default=4)
    parser.add_argument("--most", type=int, default=6)
    parser.add_argument("--percent", type=float, default=1.0)
    options = parser.parse_args()
    work = options.work.absolute()
    with (work / "log").open("ab") as log:
        order = [sys.executable, "-B", str(SERVE), "--accounting", "--quiet-accounting", "--cpus", str(options.cpus), "--max-jobs", str(4 * options.jobs)]
        cluster = subprocess.Popen(order, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        assert cluster.stdout and cluster.stdin
        word, _, told = cluster.stdout.readline().strip().partition(" ")
        if word != "ready":
            raise Failed(f"the cluster did not start: {told}")
        folder = Path(json.loads(told)["folder"])
        script = work / "waits.sh"
        script.write_text("#!/bin/sh\n#SBATCH --time=600 --mem=10M\nexec sleep 36000\n")
        port = free_port()
        config = work / "taskbridge.toml"
        config.write_text(CONFIG.format(port=port, folder=folder, work=work))
        bridge = Bridge(options.server.absolute(), config, port, {**os.environ, "XDG_STATE_HOME": str(work / "state")}, log)
        try:
            client, began = Client(bridge.url), time.monotonic()
            with ThreadPoolExecutor(AT_A_TIME) as pool:
                tasks = list(pool.map(lambda number: client.start("waits", str(number)), range(options.jobs)))
            environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

            def states() -> Counter[str]:
                said = subprocess.run(["squeue", "-h", "-o", "%T"], env=environment, capture_output=True, text=True, check=False)
                return Counter(said.stdout.split())

            full = lambda: found if (found := states()).total() == options.jobs else None  # noqa: E731
            print(f"{options.jobs:6} jobs after {time.monotonic() - began:.0f} s: {dict(until(full, 'all jobs'))}", flush=True)
            time.sleep(options.settled)
            found = states()
            print(f"{'':6} {dict(found)}", flush=True)
            most, looks, percent = measure(options, folder, bridge)
            stood = client.statuses(tasks)
            bridge.stop()
        finally:
            bridge.kill()
            cluster.stdin.close()
            cluster.wait(SECONDS)
    print(f"{most:6} calls in the busiest minute; {options.most} are allowed")
    print(f"{percent:6.2f} % of a processor; {options.percent} are allowed")
    print(f"{looks:6} looks at the queue in the idlest minute; 1 is the least")
    least = min(options.cpus, options.jobs) * 2 // 3
    print(f"{found['RUNNING']:6} jobs ran; {least} are the least")
    print(f"{'':6} tasks: {dict(stood)}")
    right = most <= options.most and looks >= 1 and percent <= options.percent and found["RUNNING"] >= least
    return 0 if right and stood == {"working": options.jobs} else 1


if __name__ == "__main__":
    sys.exit(main())
