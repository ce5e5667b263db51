"""Drives PyPI `fastmcp` 2.14, whose client tasks are of a draft of 2025-11-25. See `drive.py`."""

from contextlib import suppress
from typing import Any

import mcp.types as types
from anyio import BrokenResourceError
from fastmcp import Client as FastMcp
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.tasks import ToolTask
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError

from drive import Client, main, outcome


class FastMcp2(Client):
    libraries = ("fastmcp",)
    _client: FastMcp
    _tasks: dict[str, ToolTask]

    async def connect(self) -> None:
        setup = self.setup
        # Kept alive, the library would leave the server running behind the client.
        server = setup.url or StdioTransport(setup.command[0], setup.command[1:], env=setup.env, keep_alive=False)
        self._tasks = {}
        self._client = FastMcp(server, elicitation_handler=self._on_question)
        await self._client.__aenter__()

    async def disconnect(self) -> None:
        # Where a message of the server arrives while the library disconnects, its reader of stdio raises this.
        with suppress(BrokenResourceError):
            await self._client.__aexit__(None, None, None)

    async def _on_question(self, message: str, _shape: Any, _params: Any, _context: Any) -> ElicitResult:
        return self.answer(message, ElicitResult)

    async def tools(self) -> list[str]:
        # `list_tools` reads the first page only; below it is the session of the `mcp` package, which takes a cursor.
        names, cursor = [], None
        while True:
            page = await self._client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            names += [tool.name for tool in page.tools]
            if not (cursor := page.nextCursor):
                return names

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return said(await self._client.call_tool(tool, arguments, raise_on_error=False))

    async def start(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        task = await self._client.call_tool(tool, arguments, task=True)
        if task.returned_immediately:
            raise RuntimeError(f"{tool} was not made a task")
        self._tasks[task.task_id] = task
        return {"task": task.task_id, **await self.look(task.task_id)}

    async def look(self, task: str) -> dict[str, Any]:
        status = await self._client.get_task_status(task)
        return {"status": status.status, "message": status.statusMessage}

    async def poll(self, task: str) -> dict[str, Any]:
        status = await self._tasks[task].wait()
        return {"status": status.status, "message": status.statusMessage}

    async def result(self, task: str) -> dict[str, Any]:
        if task in self._tasks:
            try:
                return said(await self._tasks[task].result())
            except ToolError as error:
                # The library keeps of a result that is an error its first text.
                return {"text": str(error), "structured": None, "error": True, "links": []}
        # A task that this client did not start has no handle in the library.
        raw = types.CallToolResult.model_validate(await self._client.get_task_result(task))
        return outcome(raw.content, raw.structuredContent, raw.isError)

    async def cancel(self, task: str) -> None:
        await self._client.cancel_task(task)

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


def said(result: Any) -> dict[str, Any]:
    return outcome(result.content, result.structured_content, result.is_error)


if __name__ == "__main__":
    main(FastMcp2)
