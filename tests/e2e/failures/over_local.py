"""Failures of commands on this machine."""

from pathlib import Path
from typing import IO

from calls import Failure, Started

STDERR = "echo 'reading orders.csv' >&2; echo 'orders.csv: line 7 has no amount' >&2; exit 3"
# A compiler that says much before it says what is wrong.
LONG = (
    "for i in $(seq 400); do echo module_$i.c: compiled; echo module_$i.c:12: warning: unused variable n$i >&2; done; "
    "echo 'module_400.c:31: error: unknown type name order_t' >&2; exit 2"
)
TOO_LARGE = "ulimit -f 16; exec head -c 1000000 /dev/zero >dump.bin"
WRONG_TYPE = '{"rows": "many"}'
# The address of what the job printed.
LOG = "[link] taskbridge://tasks/t1/log"
HEEDLESS = 'trap "" TERM; echo message crawling >>"$TASKBRIDGE_EVENTS"; sleep 600'
GREEDY = "ulimit -v 400000; exec python3 -c 'rows = bytearray(1 << 30)'"


def sh(script: str) -> str:
    """A target that runs this in a shell. The text stands in quotes that keep everything as it is."""
    return f"target = {{ command = ['''sh''', '''-c''', '''{script}'''] }}"


async def cancel(started: Started) -> None:
    """Its job heeds no SIGTERM, so that it still runs when the result is read."""
    await started.seen(lambda status: status.statusMessage == "crawling")
    await started.peer.tasks.cancel_task(started.task)


class Local:
    def __init__(self, _installed: Path, _work: Path, _log: IO[bytes]) -> None:
        self.examples: list[tuple[str, str]] = []

    def config(self) -> str:
        return '[backends.engine]\nkind = "local"\nkill_grace = "3s"\n'

    def failures(self) -> list[Failure]:
        schema = (
            'output_schema = { type = "object", required = ["rows"], properties = { rows = { type = "integer" } } }\n'
        )
        return [
            Failure(
                "a command ends with an exit code",
                "import_orders",
                "exit code 3",
                "line 7 has no amount",
                LOG,
                config=sh(STDERR),
            ),
            Failure(
                "a command prints much before it fails",
                "compile",
                "exit code 2",
                "unknown type name order_t",
                LOG,
                config=sh(LONG),
            ),
            Failure(
                "a command is killed by a signal",
                "render",
                "killed by",
                "SIGSEGV",
                LOG,
                config=sh("echo rendering; kill -SEGV $$"),
            ),
            Failure(
                "the program is missing",
                "convert",
                "the program `convertx`",
                "not found on PATH",
                "correct the tool's `command`",
                config="target = { command = ['convertx', '--all'] }",
            ),
            Failure(
                "the working folder is missing",
                "report",
                "the working directory /nowhere/2026-01",
                "does not exist",
                "create it, or correct the arguments",
                {"month": "2026-01"},
                "parameters.month = { type = 'string' }\n"
                "target = { command = ['ls'], working_dir = '/nowhere/{{ month }}' }",
            ),
            Failure(
                "a command runs too long",
                "simulate",
                "max_runtime (2s)",
                "ran longer than",
                "ask for less work in one call",
                config="max_runtime = '2s'\n" + sh("echo step 1; sleep 600"),
            ),
            Failure(
                "the result does not fit the schema",
                "count_rows",
                "the job's result",
                '"many" is not of type "integer"',
                "output schema",
                config=schema + sh(f"printf %s '{WRONG_TYPE}' >\"$TASKBRIDGE_OUTPUT\""),
            ),
            Failure(
                "the result is no JSON",
                "summarize",
                "$TASKBRIDGE_OUTPUT",
                "EOF while parsing",
                LOG,
                config=sh("printf %s '{' >\"$TASKBRIDGE_OUTPUT\""),
            ),
            Failure(
                "an argument has the wrong type",
                "resize",
                "`width`",
                '"wide" is not of type',
                '"integer"',
                {"width": "wide"},
                "parameters.width = { type = 'integer', minimum = 1 }\n" + sh("true"),
            ),
            Failure(
                "a file grows over the limit",
                "dump",
                "killed by signal 25",
                "over the limit of the file size",
                LOG,
                config=sh(TOO_LARGE),
            ),
            Failure("a command runs out of memory", "sort_rows", "exit code 1", "MemoryError", LOG, config=sh(GREEDY)),
            Failure(
                "the task is cancelled",
                "crawl",
                "ancelled",
                "by request",
                "may still be running",
                config=sh(HEEDLESS),
                meanwhile=cancel,
            ),
        ]

    def stop(self) -> None:
        pass
