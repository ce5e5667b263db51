"""Failures of jobs on a real Slurm cluster."""

import asyncio
import getpass
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import IO, Any

from calls import Failure, Started
from peer import SECONDS, Failed
from slurm import SERVE

# Each script says by a file of its name that it runs, and as which job. Tasks of an array run at the same time.
HEAD = """#!/bin/bash
#SBATCH --mem-per-cpu=50M
echo $SLURM_JOB_ID >"$RUNS/{name}.$SLURM_JOB_ID" && mv "$RUNS/{name}.$SLURM_JOB_ID" "$RUNS/{name}"
"""
DOCK = "echo 'reading ligands.sdf' >&2; echo 'ligands.sdf: molecule 12 has no atoms' >&2; exit 3"
LONG = (
    "for i in $(seq 400); do echo module_$i.c: compiled; echo module_$i.c:12: warning: unused variable n$i >&2; done; "
    "echo 'module_400.c:31: error: unknown type name order_t' >&2; exit 2"
)
# The address of what the job printed.
LOG = "[link] taskbridge://tasks/t1/log"
GREEDY = "exec python3 -c 'x = bytearray(300 << 20); import time; time.sleep(60)'"
ELEMENT = """if [ "$TASKBRIDGE_ELEMENT" = bad ]; then echo 'no such molecule: bad' >&2; exit 4; fi
echo "docked $TASKBRIDGE_ELEMENT\""""
SCRIPTS = {
    "dock": DOCK,
    "build": LONG,
    "fold": "echo folding; kill -SEGV $$",
    "align": GREEDY,
    "anneal": "echo step 1 of 900; sleep 600",
    "sample": "sleep 600",
    "crash": "sleep 600",
    "screen": ELEMENT,
    "merge": "true",
    "no_partition": "true",
    "no_node": "true",
    "silent": "true",
}


class Slurm:
    def __init__(self, _installed: Path, work: Path, log: IO[bytes]) -> None:
        self._work = work
        self._runs = work / "runs"
        self._runs.mkdir()
        self._process = subprocess.Popen(
            [sys.executable, "-B", str(SERVE), "--accounting", "--cpus", "8"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert self._process.stdout
        word, _, told = self._process.stdout.readline().strip().partition(" ")
        if word != "ready":
            raise Failed(f"the cluster did not start: {told}")
        self._folder = Path(json.loads(told)["folder"])
        self._environment = {**os.environ, "SLURM_CONF": str(self._folder / "slurm.conf")}
        self._hanging = self._commands_that_hang()
        for name, body in SCRIPTS.items():
            (work / f"{name}.sh").write_text(HEAD.format(name=name) + body + "\n")
        node = self._say("sinfo", "-h", "-o", "%N").strip()
        # Slurm logs each check of the memory limit, once a second. Of short jobs it may not have measured the memory.
        own = r"slurmstepd-\S+: error: "
        too_much = (
            "slurmstepd-node1: error: StepId=1234.batch exceeded memory limit (314572800 > 52428800), being killed"
        )
        self.examples = [
            (r"\bjob \d+", "job 1234"),
            (r"\bJOB \d+ ON", "JOB 1234 ON"),
            (rf"\b{node}\b", "node1"),
            (re.escape(str(self._folder)), "/slurm"),
            (rf"by {getpass.getuser()}\b", "by asmith"),
            (r"\btb-[a-z2-7]{26}\b", "tb-aaaaaaaaaaaaaaaaaaaaaaaaaa"),
            (rf"({own}.*\n)*{own}StepId=\d+\.batch exceeded .*(\n{own}.*)*", too_much),
            (r"CANCELLED AT [\dT:-]+", "CANCELLED AT 2026-01-01T12:00:00"),
            (r"and used at least [\d.]+ \wB", "and used at least 300 MB"),
            (r"ran for 00:0[1-9]:\d\d", "ran for 00:01:20"),
            (r"ran for 00:00:\d\d", "ran for 00:00:01"),
            (r"(, max memory [^,\n]+)?(, CPU efficiency [^,\n]+)?, on node1", ", on node1"),
            (r"\| 00:00:\d\d \| [^|\n]* \|", "| 00:00:01 |  |"),
        ]

    def _commands_that_hang(self) -> Path:
        """Slurm's commands, but that a submission is never answered."""
        folder = self._work / "hanging"
        folder.mkdir()
        for command in (self._folder / "bin").iterdir():
            here = folder / command.name
            said = "exec sleep 600" if command.name == "sbatch" else f'exec {command} "$@"'
            here.write_text(f"#!/bin/sh\n{said}\n")
            here.chmod(0o755)
        return folder

    def _say(self, name: str, *arguments: str) -> str:
        done = subprocess.run(
            [name, *arguments], env=self._environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        if done.returncode:
            raise Failed(f"{name} fails: {done.stderr}")
        return done.stdout

    def config(self) -> str:
        return "".join(
            f'[backends.{name}]\nkind = "slurm"\ncommands_dir = "{commands}"\njobs_dir = "{self._work}/jobs-{name}"\n'
            f'env = {{ RUNS = "{self._runs}" }}\nlook_every = "1s"\n{more}'
            for name, commands, more in (
                ("engine", self._folder / "bin", ""),
                ("slow", self._hanging, 'command_timeout = "1s"\n'),
            )
        )

    def _once_running(self, name: str, act: Callable[[str], None]) -> Callable[[Started], Awaitable[None]]:
        """What somebody else does with a job whose script runs."""
        marker = self._runs / name

        async def meanwhile(started: Started) -> None:
            seen = await started.seen(lambda _: marker.exists())
            if not marker.exists():
                raise Failed(f"the script of {name} did not begin: {seen}")
            await asyncio.to_thread(act, marker.read_text().strip())

        return meanwhile

    def _fail_node(self, job: str) -> None:
        node = self._say("squeue", "-h", "-j", job, "-o", "%N").strip()
        self._say("scontrol", "update", f"nodename={node}", "state=down", "reason=no power")
        # Slurm may have it back by itself by now, and refuses this then.
        until = time.monotonic() + SECONDS
        while "idle" not in self._say("sinfo", "-h", "-n", node, "-p", "main", "-o", "%T"):
            if time.monotonic() > until:
                raise Failed(f"{node} does not come back")
            subprocess.run(
                ["scontrol", "update", f"nodename={node}", "state=resume"],
                env=self._environment,
                capture_output=True,
                check=False,
            )
            time.sleep(0.2)

    def failures(self) -> list[Failure]:
        def failure(title: str, name: str, which: str, why: str, what: str, more: str = "", **others: Any) -> Failure:
            parameters, _, target = more.rpartition("---\n")
            config = f'{parameters}[tools.{name}.target]\nscript = "{self._work}/{name}.sh"\n{target}'
            return Failure(title, name, which, why, what, config=config, **others)

        def bounded(resource: str, parameter: str, default: str = "") -> str:
            more = f', default = "{default}"' if default else ""
            value = f'{{ value = "{{{{ {parameter} }}}}", allowed = ["*"] }}'
            return (
                f'parameters.{parameter} = {{ type = "string"{more} }}\n---\nresources = {{ {resource} = {value} }}\n'
            )

        given = '{ type = "array", items = { type = "string" }, default = ["water", "bad", "ice"] }'
        molecules = f"parameters.molecules = {given}\n"
        cancel = self._once_running("sample", lambda job: self._say("scancel", job) and None)
        return [
            failure(
                "the node fails",
                "crash",
                "a node of the job failed",
                "NODE FAILURE",
                "call the tool again",
                alone=True,
                meanwhile=self._once_running("crash", self._fail_node),
            ),
            failure("the script ends with an exit code", "dock", "exit code 3", "molecule 12 has no atoms", LOG),
            failure("the script prints much before it fails", "build", "exit code 2", "unknown type name order_t", LOG),
            failure("the script is killed by a signal", "fold", "exit code 139", "ended by SIGSEGV", LOG),
            failure(
                "the job uses too much memory",
                "align",
                "The job failed",
                "used more memory than requested",
                "Raise `memory`",
                bounded("memory_per_cpu", "memory", "50M"),
            ),
            failure(
                "the job runs into its time limit",
                "anneal",
                "The job failed",
                "time limit reached",
                "Raise `--time`",
                'resources = { time = "1", partition = "short" }\n',
            ),
            failure(
                "somebody else cancels the job", "sample", "The job was cancelled", "by asmith", LOG, meanwhile=cancel
            ),
            failure(
                "one task of an array fails",
                "screen",
                "1 | failed | exit code 4",
                "no such molecule",
                LOG,
                molecules + '---\narray = { parameter = "molecules" }\n',
            ),
            failure(
                "the job that it waits for fails",
                "merge",
                "job 1234, on which this job depends",
                "did not end as required",
                "run that job again",
                'parameters.before = { type = "task" }\n---\nafter = { job = "{{ before }}" }\n',
                after=("before", "dock"),
            ),
            failure(
                "the partition does not exist",
                "no_partition",
                "sbatch",
                "invalid partition",
                "nowhere",
                bounded("partition", "partition"),
                arguments={"partition": "nowhere"},
            ),
            failure(
                "no node has so much memory",
                "no_node",
                "no node could ever run this job",
                "Requested node configuration",
                "request fewer resources",
                bounded("memory", "memory"),
                arguments={"memory": "4T"},
            ),
            failure(
                "the script is missing",
                "no_script",
                "the script /work/no_script.sh",
                "cannot be read",
                "correct the tool's `script`",
            ),
            failure(
                "Slurm does not answer",
                "silent",
                "sbatch",
                "timed out after 1.0 s",
                "`scancel --name=",
                "start_within = '1s'\nsettle_window = '1s'\n---\n",
                backend="slow",
            ),
        ]

    def stop(self) -> None:
        """The cluster ends with its input."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(SECONDS)
