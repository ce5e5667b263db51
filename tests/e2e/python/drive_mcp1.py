"""Drives PyPI `mcp` 1.x with its experimental tasks API of 2025-11-25. See `drive.py`."""

from contextlib import AsyncExitStack
from typing import Any

import mcp.types as types

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


def said(result: types.CallToolResult) -> dict[str, Any]:
    return outcome(result.content, result.structuredContent, result.isError)


if __name__ == "__main__":
    main(Mcp1)
