"""The Temporal worker of the tests: the workflows that the behaviour suite and the e2e run start.

    python worker.py HOST:PORT FOLDER

It creates the file worker.ready in the folder once it polls its task queue `taskbridge`, and one file for each run of a
workflow, with its type and its arguments: starts/WORKFLOW_ID/RUN_ID.
"""

import asyncio
import json
import sys
from datetime import timedelta
from pathlib import Path

from temporalio import workflow
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

QUEUE = "taskbridge"
FOLDER = Path(sys.argv[2])


def record(arguments: dict) -> None:
    """Records the run. A replay records the same file again."""
    info = workflow.info()
    runs = FOLDER / "starts" / info.workflow_id
    runs.mkdir(parents=True, exist_ok=True)
    (runs / info.run_id).write_text(json.dumps({"workflow": info.workflow_type, "arguments": arguments}))


@workflow.defn(name="greet")
class Greet:
    @workflow.run
    async def run(self, arguments: dict) -> dict:
        record(arguments)
        return {**arguments, "said": f"hello {arguments.get('who', 'world')}"}


@workflow.defn(name="later")
class Later:
    @workflow.run
    async def run(self, arguments: dict) -> dict:
        record(arguments)
        await workflow.sleep(timedelta(seconds=2))
        return arguments


@workflow.defn(name="fail")
class Fail:
    @workflow.run
    async def run(self, arguments: dict) -> dict:
        record(arguments)
        raise ApplicationError("out of luck\nand out of paper", non_retryable=True)


@workflow.defn(name="sleep")
class Sleep:
    @workflow.run
    async def run(self, arguments: dict) -> dict:
        record(arguments)
        await workflow.sleep(timedelta(minutes=30))
        return {}

    @workflow.query
    def status(self) -> dict:
        return {"done": 1, "total": 4, "message": "sleeping"}


@workflow.defn(name="ask")
class Ask:
    def __init__(self) -> None:
        self.answers: dict = {}

    @workflow.run
    async def run(self, arguments: dict) -> dict:
        record(arguments)
        await workflow.wait_condition(lambda: "name" in self.answers)
        return {**arguments, "answer": self.answers["name"]}

    @workflow.query
    def status(self) -> dict:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        question = {"id": "name", "message": "What is your name?", "schema": schema}
        return {"questions": [] if "name" in self.answers else [question]}

    @workflow.update
    def answer(self, given: dict) -> None:
        self.answers[given["question"]] = given["answer"]

    @answer.validator
    def check(self, given: dict) -> None:
        if given["question"] != "name" or "name" in self.answers:
            raise ApplicationError("this question is not open", type="too_late")


async def main() -> None:
    client = await Client.connect(sys.argv[1])
    workflows = [Greet, Later, Fail, Sleep, Ask]
    async with Worker(client, task_queue=QUEUE, workflows=workflows, workflow_runner=UnsandboxedWorkflowRunner()):
        (FOLDER / "worker.ready").touch()
        await asyncio.Event().wait()


asyncio.run(main())
