"""The Temporal worker of the example: two workflows that were written without taskbridge in mind, but for the query
`status` and the update `answer` (docs/engines/http/temporal.md).

    python worker.py HOST:PORT FOLDER

It creates the file worker.ready in the folder once it polls its task queue `work`.
"""

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

from temporalio import workflow
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

PAGES = 12
SCHEMA = {
    "type": "object",
    "properties": {"approved": {"type": "boolean", "title": "Release it"}, "note": {"type": "string"}},
    "required": ["approved"],
}


@workflow.defn
class Report:
    """Renders a report, page by page."""

    def __init__(self) -> None:
        self.done = 0

    @workflow.run
    async def run(self, arguments: dict) -> dict:
        month = arguments["month"]
        if month < "2020":
            raise ApplicationError(f"there are no sales in {month}", non_retryable=True)
        while self.done < PAGES:
            await workflow.sleep(timedelta(milliseconds=250))
            self.done += 1
        return {"month": month, "pages": PAGES}

    @workflow.query
    def status(self) -> dict:
        return {"done": self.done, "total": PAGES, "message": "rendering"}


@workflow.defn
class Release:
    """Builds a version, and releases it after somebody has approved it."""

    def __init__(self) -> None:
        self.step, self.answers = "building", []

    @workflow.run
    async def run(self, arguments: dict) -> dict:
        await workflow.sleep(timedelta(seconds=1))
        self.step = "waiting for approval"
        await workflow.wait_condition(lambda: bool(self.answers))
        answer = self.answers[0] or {"approved": False}
        self.step = "releasing" if answer["approved"] else "discarding"
        await workflow.sleep(timedelta(seconds=1))
        return {"released": arguments["version"] if answer["approved"] else None, "note": answer.get("note")}

    @workflow.query
    def status(self) -> dict:
        questions = [{"id": "approval", "message": "The build is green. Release it?", "schema": SCHEMA}]
        return {"message": self.step, "questions": questions if self._is_open() else []}

    @workflow.update
    def answer(self, given: dict) -> None:
        self.answers.append(given["answer"])

    @answer.validator
    def check_answer(self, given: dict) -> None:
        if given["question"] != "approval" or not self._is_open():
            raise ApplicationError("the question is not open")

    def _is_open(self) -> bool:
        return self.step == "waiting for approval" and not self.answers


async def main() -> None:
    client = await Client.connect(sys.argv[1])
    # Each replay would import the workflows again in a sandbox, which takes long on a busy machine.
    async with Worker(client, task_queue="work", workflows=[Report, Release], workflow_runner=UnsandboxedWorkflowRunner()):
        Path(sys.argv[2], "worker.ready").touch()
        await asyncio.Event().wait()


asyncio.run(main())
