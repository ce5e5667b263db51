"""Drives PyPI `mcp` 2.x. Tasks of 2026-07-28 come in through its hook for results of an extension. See `drive.py`.

The library has no tasks itself, so the extension below is what its user has to write: the shapes of the wire, and a
loop that polls and answers. The requests are still built, sent and read by the library.
"""

from typing import Any, ClassVar, Literal

import anyio
import mcp_types as types
from mcp import Client as McpClient
from mcp import StdioServerParameters
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientRequestContext, ClientSession
from pydantic import ConfigDict, Field

from drive import TERMINAL, Client, main, outcome


class Task(types.Result):
    """A task, as a call is answered with one (`resultType: "task"`)."""

    result_type: Literal["task"] = Field(alias="resultType")
    task_id: str = Field(alias="taskId")
    status: str
    status_message: str | None = Field(default=None, alias="statusMessage")
    poll_interval_ms: int = Field(default=1000, alias="pollIntervalMs")


class Detailed(Task):
    """A task, as `tasks/get` tells of it."""

    result_type: Literal["complete"] = Field(alias="resultType")
    result: types.CallToolResult | None = None
    error: types.ErrorData | None = None
    input_requests: dict[str, types.ElicitRequest] = Field(default={}, alias="inputRequests")


class Acknowledged(types.Result):
    result_type: Literal["complete"] = Field(alias="resultType")


class Params(types.RequestParams):
    model_config = ConfigDict(populate_by_name=True)
    task_id: str = Field(alias="taskId")
    input_responses: dict[str, types.ElicitResult] | None = Field(default=None, alias="inputResponses")


class Request(types.Request[Params, str]):
    # The library takes the header `Mcp-Name` from here.
    name_param: ClassVar[str] = "taskId"
    params: Params


class Tasks(ClientExtension):
    """The tasks extension, of a client that answers questions by `ask`."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self, ask: Any) -> None:
        self._ask = ask

    def claims(self) -> list[ResultClaim[Task]]:
        return [ResultClaim(result_type="task", model=Task, resolve=self._resolve)]

    async def _resolve(self, task: Task, context: ClaimContext) -> types.CallToolResult:
        return await self.result(context.session, task.task_id)

    async def get(self, session: ClientSession, task_id: str) -> Detailed:
        return await session.send_request(Request(method="tasks/get", params=Params(task_id=task_id)), Detailed)

    async def cancel(self, session: ClientSession, task_id: str) -> None:
        await session.send_request(Request(method="tasks/cancel", params=Params(task_id=task_id)), Acknowledged)

    async def end(self, session: ClientSession, task_id: str) -> Detailed:
        """Polls as the server asks for, and answers, until the task has ended."""
        while (task := await self.get(session, task_id)).status not in TERMINAL:
            answers = {
                key: await self._ask(ClientRequestContext(session=session, request_id=key), question.params)
                for key, question in task.input_requests.items()
            }
            if answers:
                params = Params(task_id=task_id, input_responses=answers)
                await session.send_request(Request(method="tasks/update", params=params), Acknowledged)
            else:
                await anyio.sleep(task.poll_interval_ms / 1000)
        return task

    async def result(self, session: ClientSession, task_id: str) -> types.CallToolResult:
        task = await self.end(session, task_id)
        if task.result is None:
            raise RuntimeError(f"the task ended {task.status}: {task.error}")
        return task.result


class Mcp2(Client):
    libraries = ("mcp",)
    _client: McpClient

    async def connect(self) -> None:
        setup = self.setup
        server: Any = setup.url
        if server is None:
            server = StdioServerParameters(command=setup.command[0], args=setup.command[1:], env=setup.env)
        self._tasks = Tasks(self._on_question)
        self._client = McpClient(
            server,
            mode="auto" if setup.modern else "legacy",
            elicitation_callback=self._on_question,
            extensions=[self._tasks] if setup.tasks else None,
        )
        await self._client.__aenter__()
        self.spoke(self._client.protocol_version)

    async def disconnect(self) -> None:
        await self._client.__aexit__(None, None, None)

    async def _on_question(self, _context: Any, params: Any) -> types.ElicitResult:
        return self.answer(params.message, types.ElicitResult)

    async def tools(self) -> list[str]:
        found, cursor = [], None
        while True:
            page = await self._client.list_tools(cursor=cursor)
            found += [tool.name for tool in page.tools]
            if (cursor := page.next_cursor) is None:
                return found

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return said(await self._client.call_tool(tool, arguments))

    async def start(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        task = await self._client.session.call_tool(tool, arguments, allow_claimed=True)
        if not isinstance(task, Task):
            raise RuntimeError(f"{tool} was not made a task: {task}")
        return {"task": task.task_id, "status": task.status}

    async def look(self, task: str) -> dict[str, Any]:
        return status(await self._tasks.get(self._client.session, task))

    async def poll(self, task: str) -> dict[str, Any]:
        return status(await self._tasks.end(self._client.session, task))

    async def result(self, task: str) -> dict[str, Any]:
        return said(await self._tasks.result(self._client.session, task))

    async def cancel(self, task: str) -> None:
        await self._tasks.cancel(self._client.session, task)

    async def progress(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        steps: list[float] = []

        async def on_progress(done: float, _total: float | None, _message: str | None) -> None:
            steps.append(done)

        got = await self._client.call_tool(tool, arguments, progress_callback=on_progress)
        return {**said(got), "steps": steps}

    async def resources(self) -> list[str]:
        return [resource.uri for resource in (await self._client.list_resources()).resources]

    async def read(self, uri: str) -> str:
        return (await self._client.read_resource(uri)).contents[0].text

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        return (await self._client.get_prompt(name, arguments)).messages[0].content.text

    async def complete(self, prompt: str, argument: str, value: str) -> list[str]:
        asked = types.PromptReference(type="ref/prompt", name=prompt)
        return (await self._client.complete(asked, {"name": argument, "value": value})).completion.values


def status(task: Task) -> dict[str, Any]:
    return {"status": task.status, "message": task.status_message}


def said(result: types.CallToolResult) -> dict[str, Any]:
    return outcome(result.content, result.structured_content, result.is_error)


if __name__ == "__main__":
    main(Mcp2)
