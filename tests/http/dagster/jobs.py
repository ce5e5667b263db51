"""Jobs of Dagster for tests of the http adapter (start.py). Each start leaves a line in STARTS/KEY."""

import os
import time
from pathlib import Path

from dagster import Config, Definitions, MetadataValue, Output, in_process_executor, job, op
from pydantic import Field


def record(context):
    """Records the run."""
    if key := context.run.tags.get("taskbridge/key"):
        with (Path(os.environ["STARTS"]) / key).open("a") as file:
            file.write("started\n")


class Greeting(Config):
    who: str = Field(description="Whom to greet.")
    times: int = 1


@op
def hello(context, config: Greeting):
    record(context)
    said = " ".join([f"hello {config.who}"] * config.times)
    return Output({"said": said}, metadata={"result": MetadataValue.json({"said": said})})


@job(tags={"mcp": "hello"}, description="Says hello.")
def greet():
    hello()


@job(tags={"mcp": ""})
def greet_all():
    hello()


@op
def report(context):
    record(context)
    return Output(None, metadata={"result": MetadataValue.md("# Report\n\nAll is well.")})


@job
def write():
    report()


@op
def talk(context):
    for line in range(1050):
        context.log.info(f"line {line}")
    return Output(None, metadata={"result": MetadataValue.json({"lines": 1050})})


@job
def chat():
    talk()


@op
def break_down(context):
    record(context)
    raise RuntimeError("out of luck\nfor today")


@job
def fail():
    break_down()


@op
def first(context):
    record(context)


@op
def rest(context, done):
    time.sleep(1200)


@job
def sleep():
    rest(first())


@op
def lines(context) -> None:
    record(context)
    for line in ["first line", "second line", "third line"]:
        context.log.info(line)


@job
def show():
    lines()


defs = Definitions(jobs=[greet, greet_all, write, chat, fail, sleep, show], executor=in_process_executor)
