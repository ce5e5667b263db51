"""Flows of Prefect for tests of the http adapter, and the process that serves them (start.py). Each start leaves a line
in STARTS/KEY."""

import os
import time
from enum import Enum
from pathlib import Path
from typing import Any

from prefect import flow, serve
from prefect.artifacts import create_markdown_artifact, create_progress_artifact, create_table_artifact
from prefect.client.orchestration import get_client
from prefect.flow_runs import pause_flow_run, suspend_flow_run
from prefect.input import RunInput
from prefect.runtime import flow_run
from prefect.states import Completed


def record():
    """Records the run."""
    with get_client(sync_client=True) as client:
        key = client.read_flow_run(flow_run.id).idempotency_key
    if key:
        with (Path(os.environ["STARTS"]) / key).open("a") as file:
            file.write("started\n")


class Tone(Enum):
    CALM = "calm"
    LOUD = "loud"


@flow
def greet(who: str, times: int = 1, tone: Tone = Tone.CALM, extra: dict[str, Any] | None = None):
    """Says hello.

    Args:
        who: Whom to greet.
    """
    record()
    said = " ".join([f"hello {who}"] * times)
    row = {"said": said.upper() if tone == Tone.LOUD else said}
    create_table_artifact(key="result", table=[row | ({"extra": extra} if extra else {})])


@flow
def write():
    record()
    create_markdown_artifact(key="report", markdown="# Report\n\nAll is well.")


@flow
def plain():
    record()
    return Completed(message="in a few words")


@flow
def fail():
    record()
    raise RuntimeError("out of luck\nfor today")


@flow
def sleep():
    record()
    create_progress_artifact(progress=25.0, description="sleeping")
    time.sleep(1200)


@flow(log_prints=True)
def show():
    record()
    print("first line\nsecond line\nthird line")


@flow(log_prints=True)
def count(lines: int):
    for line in range(lines):
        print(f"line {line}")


class Approval(RunInput):
    name: str
    copies: int = 1


@flow
def ask(again: bool = False):
    record()
    form = Approval.with_initial_data(description="Ship it?", copies=2)
    answers = [pause_flow_run(wait_for_input=form, timeout=1200) for _ in range(2 if again else 1)]
    create_table_artifact(key="result", table=[answer.model_dump() for answer in answers])


@flow
def halt():
    """Ends its process, and another one goes on after the answer."""
    record()
    suspend_flow_run(timeout=1200)
    return Completed(message="went on")


if __name__ == "__main__":
    flows = [greet, write, plain, fail, sleep, show, count, ask, halt]
    deployments = [each.to_deployment(each.name, tags=["mcp"] if each in [greet, ask] else []) for each in flows]
    deployments.append(greet.to_deployment("friendly", tags=["mcp"], parameters={"who": "friend"}))
    # Nobody serves it.
    halt.to_deployment("orphan").apply()
    serve(*deployments, limit=30, print_starting_message=False)
