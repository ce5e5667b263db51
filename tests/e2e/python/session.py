"""Sessions for the end-to-end scenarios of `client.py`, and small checks.

A `Server` opens sessions over Streamable HTTP or stdio with the `mcp` client library; a `Peer` is one
session and keeps what the server sent on it without being asked. It must not decide what is right:
that is said by the scenarios.
"""

import logging
import os
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import httpx
import mcp.types as types
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.experimental.task_handlers import ExperimentalTaskHandlers
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.experimental.tasks.in_memory_task_store import InMemoryTaskStore

from wire import TIMEOUT, Wire

# The library calls its tasks API deprecated, since later revisions moved tasks to an extension.
warnings.filterwarnings("ignore", category=DeprecationWarning, message="The experimental tasks API")
# It logs a traceback where a notification arrives while a session closes. Real faults in what it
# reads come to `Peer.on_message` as well.
logging.getLogger("mcp.client.streamable_http").setLevel(logging.CRITICAL)

RELATED_TASK = "io.modelcontextprotocol/related-task"
TERMINAL = ("completed", "failed", "cancelled")
ACCEPT = types.ElicitResult(action="accept", content={"name": "Ada"})
DECLINE = types.ElicitResult(action="decline")


def check(holds: Any, why: str) -> None:
    """Fails the scenario, also where `assert` is compiled out."""
    if not holds:
        raise AssertionError(why)


class OwnTasks:
    """Tasks of the client's own, one of each question that it is asked. Whoever has it answers them, when they like."""

    def __init__(self) -> None:
        self.store = InMemoryTaskStore()
        self.questions: list[types.ElicitRequestParams] = []
        self.tasks: list[str] = []
        self.fetched: list[str] = []
        self.changed = anyio.Event()

    @property
    def handlers(self) -> ExperimentalTaskHandlers:
        return ExperimentalTaskHandlers(
            get_task=self._get,
            get_task_result=self._result,
            cancel_task=self._cancel,
            augmented_elicitation=self._elicit,
        )

    async def until(self, holds: Callable[[], bool]) -> None:
        """Waits for requests until the condition holds; the scenario's time limit ends it."""
        while not holds():
            await self.changed.wait()

    async def answer(self, task_id: str, answer: types.ElicitResult) -> None:
        await self.store.store_result(task_id, answer)
        await self.store.update_task(task_id, status="completed")

    async def status(self, task_id: str) -> str | None:
        task = await self.store.get_task(task_id)
        return task.status if task else None

    def _happened(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    async def _elicit(self, _context: Any, params: Any, metadata: types.TaskMetadata) -> types.CreateTaskResult:
        task = await self.store.create_task(metadata)
        self.questions.append(params)
        self.tasks.append(task.taskId)
        self._happened()
        return types.CreateTaskResult(task=task)

    async def _get(self, _context: Any, params: Any) -> types.GetTaskResult | types.ErrorData:
        task = await self.store.get_task(params.taskId)
        return types.GetTaskResult(**task.model_dump()) if task else self._unknown()

    async def _result(self, _context: Any, params: Any) -> types.GetTaskPayloadResult | types.ErrorData:
        self.fetched.append(params.taskId)
        result = await self.store.get_result(params.taskId)
        if result is None:
            return self._unknown()
        return types.GetTaskPayloadResult(**result.model_dump(by_alias=True, exclude_none=True))

    async def _cancel(self, _context: Any, params: Any) -> types.CancelTaskResult | types.ErrorData:
        task = await self.store.update_task(params.taskId, status="cancelled")
        self._happened()
        return types.CancelTaskResult(**task.model_dump())

    @staticmethod
    def _unknown() -> types.ErrorData:
        return types.ErrorData(code=types.INVALID_PARAMS, message="Failed to retrieve task: Task not found")


class Peer:
    """One session, and what the server has sent on it without being asked."""

    def __init__(self, answer: types.ElicitResult) -> None:
        self.session: ClientSession
        self.statuses: list[types.TaskStatusNotificationParams] = []
        self.progress: list[types.ProgressNotificationParams] = []
        self.questions: list[types.ElicitRequestParams] = []
        self._answer = answer
        self._changed = anyio.Event()

    @property
    def tasks(self) -> Any:
        """The library's experimental tasks API."""
        return self.session.experimental

    async def on_message(self, message: Any) -> None:
        if isinstance(message, Exception):
            # The library could not read something; the scenario that misses it says what it waited for.
            print(f"unreadable message: {message}", file=sys.stderr)
        notification = getattr(message, "root", None)
        if isinstance(notification, types.TaskStatusNotification):
            self.statuses.append(notification.params)
        elif isinstance(notification, types.ProgressNotification):
            self.progress.append(notification.params)
        self._changed.set()
        self._changed = anyio.Event()

    async def on_question(self, _context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.questions.append(params)
        return self._answer

    async def until(self, holds: Callable[[], bool]) -> None:
        """Waits for messages until the condition holds; the scenario's time limit ends it."""
        while not holds():
            await self._changed.wait()

    async def start(self, tool: str, arguments: dict[str, Any], **options: Any) -> types.Task:
        return (await self.tasks.call_tool_as_task(tool, arguments, **options)).task

    async def poll(self, task_id: str, *, stop: tuple[str, ...] = TERMINAL) -> types.GetTaskResult:
        """Polls with the library's own loop, at the interval the server asks for."""
        async for status in self.tasks.poll_task(task_id):
            if status.status in stop:
                return status
        return status

    async def result(self, task_id: str) -> types.CallToolResult:
        result = await self.tasks.get_task_result(task_id, types.CallToolResult)
        related = (result.meta or {}).get(RELATED_TASK)
        check(related == {"taskId": task_id}, f"tasks/result carries related-task {related}")
        return result


@asynccontextmanager
async def over_stdio(process: StdioServerParameters) -> AsyncIterator[Any]:
    """The library's stdio, without its fault at the end: a notification that arrives while a session closes breaks
    its reader. Once the scenario is over, that is no fault of the server."""
    over = False
    try:
        async with stdio_client(process) as streams:
            yield streams
            over = True
    except* anyio.BrokenResourceError:
        if not over:
            raise


class Server:
    """Where the server is. A session over stdio is a server process of its own."""

    def __init__(self, url: str | None, command: list[str]) -> None:
        self.url = url
        self._command = command

    @asynccontextmanager
    async def connect(
        self,
        *,
        wire: Wire | None = None,
        end: bool = True,
        answer: types.ElicitResult = ACCEPT,
        own: OwnTasks | None = None,
    ) -> AsyncIterator[Peer]:
        """Opens a session. `end=False` leaves without DELETE, as a client that crashed does. With `own`, questions
        become tasks there."""
        peer = Peer(answer)
        async with AsyncExitStack() as stack:
            if self.url is not None:
                http = await stack.enter_async_context(httpx.AsyncClient(transport=wire or Wire(), timeout=TIMEOUT))
                streams = await stack.enter_async_context(
                    streamable_http_client(self.url, http_client=http, terminate_on_close=end)
                )
            else:
                process = StdioServerParameters(command=self._command[0], args=self._command[1:], env=dict(os.environ))
                streams = await stack.enter_async_context(over_stdio(process))
            peer.session = await stack.enter_async_context(
                ClientSession(
                    streams[0],
                    streams[1],
                    elicitation_callback=peer.on_question,
                    message_handler=peer.on_message,
                    experimental_task_handlers=own.handlers if own else None,
                )
            )
            await peer.session.initialize()
            yield peer


def text(result: types.CallToolResult) -> str:
    """The text blocks of a tool result, without the line end that a command prints."""
    return "".join(block.text for block in result.content if isinstance(block, types.TextContent)).rstrip("\n")


async def refused(code: int, request: Awaitable[Any]) -> str:
    """The message of the JSON-RPC error that the request must end with."""
    try:
        await request
    except McpError as error:
        check(error.error.code == code, f"error {error.error.code} ({error.error.message}) in place of {code}")
        return error.error.message
    raise AssertionError(f"the request was accepted in place of error {code}")


async def pages(fetch: Callable[[str | None], Awaitable[Any]]) -> list[Any]:
    """Every page of a list, in order."""
    found = [await fetch(None)]
    while found[-1].nextCursor is not None:
        found.append(await fetch(found[-1].nextCursor))
    return found
