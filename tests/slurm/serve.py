"""Runs a Slurm cluster of one node in a new folder, until the standard input ends.

    serve.py [--accounting] [--rest] [--cpus N] [--min-job-age SECONDS] [--set LINE]...

It prints `ready` and what there is, as JSON, when jobs can be submitted. Whoever started it holds its input open: when that is
closed, however its owner went, everything ends, jobs and all, and the folder is deleted. Each line of the input is an order, answered by
`ok` or by `failed` and why:

    kill NAME, stop NAME, start NAME     a server, such as slurmctld: at once, in order, again
    freeze NAME, thaw NAME               it says nothing for a while
"""

import argparse
import os
import select
import signal
import sys
import tempfile

from cluster import Cluster, Refused


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--accounting", action="store_true", help="MariaDB and slurmdbd as well")
    parser.add_argument("--jobcomp", action="store_true", help="a file of the jobs that completed, where there is no accounting")
    parser.add_argument("--rest", action="store_true", help="slurmrestd as well")
    parser.add_argument("--cpus", type=int, default=64, help="how many jobs of one processor run side by side")
    parser.add_argument("--max-jobs", type=int, default=10_000, help="how many jobs the controller holds")
    parser.add_argument("--min-job-age", type=int, default=300, help="how long the controller knows a job that ended")
    parser.add_argument("--cred-expire", type=int, default=120, help="how long a job that is put back into the queue waits there")
    parser.add_argument("--quiet-accounting", action="store_true", help="what jobs use is not looked at while they run")
    parser.add_argument("--cgroups", action="store_true", help="limits of memory as the kernel keeps them, where this machine can")
    parser.add_argument("--set", action="append", default=[], metavar="LINE", help="one more line of slurm.conf")
    return parser.parse_args()


def obey(cluster, order):
    verb, _, name = order.partition(" ")
    if verb in ("kill", "stop"):
        cluster.end(name, verb)
    elif verb == "start":
        cluster.start(name)
    elif verb in ("freeze", "thaw"):
        cluster.signal(name, signal.SIGSTOP if verb == "freeze" else signal.SIGCONT)
    else:
        raise Refused(f"there is no order {verb!r}")


def orders(cluster):
    """The lines of the input as they come. Between them, what jobs left is reaped, and a node put back into use."""
    waiting = b""
    while True:
        readable, _, _ = select.select([0], [], [], 1.0)
        cluster.reap()
        if not readable:
            cluster.resume()
            continue
        heard = os.read(0, 4096)
        if not heard:
            return
        *lines, waiting = (waiting + heard).split(b"\n")
        yield from (line.decode() for line in lines if line)


def main():
    cluster = Cluster(tempfile.mkdtemp(prefix="taskbridge-slurm-"), options())
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, lambda *_: sys.exit(1))
    try:
        os.chmod(cluster.folder, 0o755)
        cluster.up()
        print("ready", cluster.told(), flush=True)
        for order in orders(cluster):
            try:
                obey(cluster, order)
                print("ok", flush=True)
            except Refused as refused:
                print("failed", " ".join(str(refused).split()), flush=True)
    except Refused as refused:
        print("failed", " ".join(str(refused).split()), flush=True)
        sys.exit(1)
    finally:
        cluster.down()


main()
