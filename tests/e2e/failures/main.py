"""Makes failing calls over each engine by a client library, and compares what an agent reads of them with reviewed texts.

    main.py --installed FOLDER --server PROGRAM --work FOLDER [ENGINE]...

`TASKBRIDGE_REVIEW=1` writes the texts anew. Exits with 1 where a text differs, or is not as a text must be.
"""

import argparse
import asyncio
import difflib
import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

import calls
import reviewed
from bridge import Bridge, free_port
from over_aws import StepFunctions
from over_github import GithubActions
from over_local import Local
from over_slurm import Slurm

ENGINES: dict[str, Any] = {
    "local": Local,
    "github-actions": GithubActions,
    "step-functions": StepFunctions,
    "slurm": Slurm,
}
IS_REVIEW = os.environ.get("TASKBRIDGE_REVIEW") == "1"

CONFIG = """
[server]
listen = "127.0.0.1:{port}"
max_polls_per_second = 1000
# Each call is answered with a task, however soon its job ends.
quick_wait = "0s"

[auth]
single_user = true

[reconciler]
quickest_look = "200ms"
slowest_look = "2s"

"""


class Run(threading.Thread):
    """One engine with its server, and what was found."""

    def __init__(self, name: str, options: argparse.Namespace, log: IO[bytes]) -> None:
        super().__init__(name=name)
        self._options, self._log = options, log
        self.faults: list[str] = []
        self.figures = ""

    def run(self) -> None:
        began = time.monotonic()
        try:
            reads, failures = self._read()
        except BaseException as error:  # Whatever it is, nobody else would hear of it.
            self.faults.append(f"{type(error).__name__}: {reason(error)}")
            return
        for read, failure in zip(reads, failures, strict=True):
            self.faults += reviewed.faults(read, failure.answers)
        longest = max(reads, key=lambda read: len(read.text.encode()))
        self.figures = (
            f"{len(reads)} texts, the longest has {len(longest.text.encode())} bytes ({longest.title}), "
            f"{time.monotonic() - began:.0f} s"
        )
        self._compare(reads)

    def _read(self) -> tuple[list[reviewed.Read], list[calls.Failure]]:
        work = self._options.work.absolute() / self.name
        work.mkdir()
        engine = ENGINES[self.name](self._options.installed.absolute(), work, self._log)
        try:
            failures = engine.failures()
            port = free_port()
            config = work / "taskbridge.toml"
            tools = "".join(failure.tool_config for failure in failures)
            config.write_text(CONFIG.format(port=port) + engine.config() + tools)
            env = {**os.environ, "XDG_STATE_HOME": str(work / "state")}
            bridge = Bridge(self._options.server.absolute(), config, port, env, self._log)
            try:
                examples = [*engine.examples, (re.escape(str(work)), "/work")]
                return asyncio.run(calls.read_all(bridge.url, failures, examples)), failures
            finally:
                bridge.stop()
        finally:
            engine.stop()

    def _compare(self, reads: list[reviewed.Read]) -> None:
        file = reviewed.path(self.name)
        before = file.read_text() if file.exists() else ""
        now = reviewed.written(self.name, reads)
        if IS_REVIEW:
            file.write_text(now)
        elif now != before:
            lines = difflib.unified_diff(before.splitlines(), now.splitlines(), "reviewed", "read", lineterm="")
            self.faults.append(
                "\n".join(
                    ["the texts differ: write them anew with TASKBRIDGE_REVIEW=1, and review the difference", *lines]
                )
            )


def reason(error: BaseException) -> str:
    """The first real error inside the groups that task groups make."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return repr(error)


def main() -> int:
    parser = argparse.ArgumentParser(description="What an agent reads of failed calls.")
    parser.add_argument("engines", nargs="*", metavar="ENGINE", help=", ".join(ENGINES))
    parser.add_argument("--installed", type=Path, required=True, help="where tests/run puts what it installs")
    parser.add_argument("--server", type=Path, required=True, help="the program of taskbridge")
    parser.add_argument("--work", type=Path, required=True, help="an empty folder for states and a log")
    options = parser.parse_args()
    unknown = [name for name in options.engines if name not in ENGINES]
    if unknown:
        parser.error(f"there is no engine {unknown[0]}; there are: {', '.join(ENGINES)}")
    with (options.work / "log").open("ab") as log:
        # Each waits most of the time.
        runs = [Run(name, options, log) for name in options.engines or ENGINES]
        for run in runs:
            run.start()
        for run in runs:
            run.join()
    for run in runs:
        print(f"{run.name}: {run.figures or 'FAILED'}")
        for fault in run.faults:
            print(f"FAILED {run.name}: {fault}")
    return 1 if any(run.faults for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
