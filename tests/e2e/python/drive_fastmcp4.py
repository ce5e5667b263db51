"""Drives PyPI `fastmcp` 4.x, with `fastmcp-tasks` for the tasks of 2026-07-28. See `drive.py`."""

from datetime import UTC, datetime
from typing import Any

import mcp_types as types
from fastmcp import Client as FastMcp
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport

from drive import Client, Setup, main, outcome


class FastMcp4(Client):
    libraries = ("fastmcp", "fastmcp-tasks")
    _client: FastMcp
    _tasks: dict[str, Any]

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        if setup.tasks:
            # To import it is to declare the extension, in every client of this process.
            import fastmcp_tasks.client

            self._extension = fastmcp_tasks.client

    async def connect(self) -> None:
        setup = self.setup
        # Kept alive, the library would leave the server running behind the client.
        server = setup.url or StdioTransport(setup.command[0], setup.command[1:], env=setup.env, keep_alive=False)
        self._tasks = {}
        mode = "auto" if setup.modern else "legacy"
        self._client = FastMcp(server, mode=mode, elicitation_handler=self._on_question)
        await self._client.__aenter__()
        self.spoke(self._client.protocol_version)

    async def disconnect(self) -> None:
        await self._client.__aexit__(None, None, None)

    async def _on_question(self, message: str, _shape: Any, _params: Any, _context: Any) -> ElicitResult:
        return self.answer(message, ElicitResult)

    async def tools(self) -> list[str]:
        return [tool.name for tool in await self._client.list_tools()]

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return said(await self._client.call_tool(tool, arguments, raise_on_error=False))

    async def start(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        task = await self._extension.call_tool_task(self._client, tool, arguments, raise_on_error=False)
        self._tasks[task.task_id] = task
        return {"task": task.task_id, "status": task.create_result.status}

    async def look(self, task: str) -> dict[str, Any]:
        return status(await self._handle(task).status())

    async def poll(self, task: str) -> dict[str, Any]:
        return status(await self._handle(task).wait())

    async def result(self, task: str) -> dict[str, Any]:
        return said(await self._handle(task).result())

    async def cancel(self, task: str) -> None:
        await self._handle(task).cancel()

    async def progress(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        steps: list[float] = []

        async def on_progress(done: float, _total: float | None, _message: str | None) -> None:
            steps.append(done)

        got = await self._client.call_tool(tool, arguments, progress_handler=on_progress)
        return {**said(got), "steps": steps}

    async def resources(self) -> list[str]:
        return [str(resource.uri) for resource in await self._client.list_resources()]

    async def read(self, uri: str) -> str:
        return (await self._client.read_resource(uri))[0].text

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        return (await self._client.get_prompt(name, arguments)).messages[0].content.text

    async def complete(self, prompt: str, argument: str, value: str) -> list[str]:
        asked = types.PromptReference(type="ref/prompt", name=prompt)
        return (await self._client.complete(asked, {"name": argument, "value": value})).values

    def _handle(self, task: str) -> Any:
        """The handle of a task that this client started, or one made by hand for a task of somebody else's."""
        if task not in self._tasks:
            now = datetime.now(UTC).isoformat()
            created = self._extension.ClientCreateTaskResult(
                resultType="task", taskId=task, status="working", createdAt=now, lastUpdatedAt=now
            )
            self._tasks[task] = self._extension.ToolTask(self._client, "count", created, raise_on_error=False)
        return self._tasks[task]


def status(task: Any) -> dict[str, Any]:
    return {"status": task.status, "message": task.status_message}


def said(result: Any) -> dict[str, Any]:
    return outcome(result.content, result.structured_content, result.is_error)


if __name__ == "__main__":
    main(FastMcp4)
