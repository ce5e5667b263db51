"""Drives PyPI `mcp` 1.x with its experimental tasks API of 2025-11-25. See `drive.py`."""

from contextlib import AsyncExitStack
from typing import Any

import mcp.types as types
from pydantic import AnyUrl

from drive import Client, main, outcome
from session import ACCEPT, DECLINE, Peer, Server, pages


class Mcp1(Client):
    libraries = ("mcp",)
    _peer: Peer

    async def connect(self) -> None:
        self._stack = AsyncExitStack()
        server = Server(self.setup.url, self.setup.command)
        self._peer = await self._stack.enter_async_context(server.connect(answer=ACCEPT if self.accepts else DECLINE))

    async def disconnect(self) -> None:
        await self._stack.aclose()

    def questions(self) -> list[str]:
        return [question.message for question in self._peer.questions]

    async def tools(self) -> list[str]:
        session = self._peer.session
        found = await pages(lambda cursor: session.list_tools(params=types.PaginatedRequestParams(cursor=cursor)))
        return [tool.name for page in found for tool in page.tools]

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return said(await self._peer.session.call_tool(tool, arguments))

    async def start(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        task = await self._peer.start(tool, arguments)
        return {"task": task.taskId, "status": task.status}

    async def look(self, task: str) -> dict[str, Any]:
        status = await self._peer.tasks.get_task(task)
        return {"status": status.status, "message": status.statusMessage}

    async def poll(self, task: str) -> dict[str, Any]:
        status = await self._peer.poll(task)
        return {"status": status.status, "message": status.statusMessage}

    async def result(self, task: str) -> dict[str, Any]:
        return said(await self._peer.result(task))

    async def cancel(self, task: str) -> None:
        await self._peer.tasks.cancel_task(task)

    async def progress(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        steps: list[float] = []

        async def on_progress(done: float, _total: float | None, _message: str | None) -> None:
            steps.append(done)

        got = await self._peer.session.call_tool(tool, arguments, progress_callback=on_progress)
        return {**said(got), "steps": steps}

    async def resources(self) -> list[str]:
        session = self._peer.session
        found = await pages(lambda cursor: session.list_resources(params=types.PaginatedRequestParams(cursor=cursor)))
        return [str(resource.uri) for page in found for resource in page.resources]

    async def read(self, uri: str) -> str:
        return (await self._peer.session.read_resource(AnyUrl(uri))).contents[0].text

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        return (await self._peer.session.get_prompt(name, arguments)).messages[0].content.text

    async def complete(self, prompt: str, argument: str, value: str) -> list[str]:
        asked = types.PromptReference(type="ref/prompt", name=prompt)
        return (await self._peer.session.complete(asked, {"name": argument, "value": value})).completion.values


def said(result: types.CallToolResult) -> dict[str, Any]:
    return outcome(result.content, result.structuredContent, result.isError)


if __name__ == "__main__":
    main(Mcp1)
