"""End-to-end scenarios with the Python `mcp` 1.x client and its experimental tasks API.

    client.py [--only NAME,...] URL
    client.py [--only NAME,...] --stdio COMMAND [ARG...]

The server runs with `tests/e2e/taskbridge.toml`. Each scenario opens its own sessions and relies on
nothing that another one left. One line per scenario (`ok NAME`, or `FAIL NAME: why`), then
`N passed, N failed`; the exit code is 1 after a failure. Everything on the wire is said by the client
library: this file must not speak MCP by itself.
"""

import argparse
import sys
import time
from collections.abc import Awaitable

import anyio
import mcp.types as types

from session import ACCEPT, DECLINE, RELATED_TASK, TERMINAL, OwnTasks, Peer, Server, check, pages, refused, text
from wire import Wire

INVALID_PARAMS = -32602
SCENARIO_SECONDS = 60
JOB_TOOLS = ("ask_name", "count", "echo_text", "fail_job", "typed_slow")
# A job that no scenario waits for to end by itself.
ENDLESS = {"to": 1000, "delay_ms": 100}


async def all_tools(peer: Peer) -> tuple[list[types.Tool], int]:
    def fetch(cursor: str | None) -> Awaitable[types.ListToolsResult]:
        return peer.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))

    found = await pages(fetch)
    return [tool for page in found for tool in page.tools], len(found)


async def list_tools(server: Server) -> None:
    """`tools/list` gives the same tools in the same order on several pages, with their task support."""
    async with server.connect() as peer:
        tools, count = await all_tools(peer)
        again, _ = await all_tools(peer)
        names = [tool.name for tool in tools]
        check(count > 1, "tools/list has one page; the scenario needs a small page size")
        check(names == [tool.name for tool in again], "tools/list changed its order")
        check(len(set(names)) == len(names), f"tools/list repeats a tool: {names}")
        support = {tool.name: tool.execution.taskSupport if tool.execution else None for tool in tools}
        for name in JOB_TOOLS:
            check(support.get(name) == "optional", f"taskSupport of {name} is {support.get(name)}")
        check("task_wait" in support, "the companion tool task_wait is not listed")
        check(support["task_wait"] in (None, "forbidden"), "task_wait can be called as a task")


async def call_as_task(server: Server) -> None:
    """A call as a task answers at once, is polled until it completed, and has its result."""
    async with server.connect() as peer:
        task = await peer.start("count", {"to": 3, "delay_ms": 100}, ttl=120_000)
        check(task.status == "working", f"a new task is {task.status}")
        check(task.ttl is None or task.ttl > 0, f"ttl is {task.ttl}")
        status = await peer.poll(task.taskId)
        check(status.status == "completed", f"the task ended {status.status}: {status.statusMessage}")
        check(status.createdAt == task.createdAt, "createdAt changed")
        check(status.lastUpdatedAt >= task.lastUpdatedAt, "lastUpdatedAt went back")
        result = await peer.result(task.taskId)
        check(not result.isError and text(result) == "counted to 3", f"result: {text(result)}")


async def blocked_result(server: Server) -> None:
    """`tasks/result` of a working task waits, lets other requests pass, and gives the result."""
    async with server.connect() as peer:
        began = time.monotonic()
        task = await peer.start("count", {"to": 5, "delay_ms": 300})
        results: list[types.CallToolResult] = []

        async def fetch() -> None:
            results.append(await peer.result(task.taskId))

        async with anyio.create_task_group() as group:
            group.start_soon(fetch)
            status = await peer.tasks.get_task(task.taskId)
            check(status.status == "working", f"while blocked the task is {status.status}")
            check(not results, "tasks/result answered while the task is working")
        check(time.monotonic() - began > 1.0, "the result came before the job could have ended")
        check(text(results[0]) == "counted to 5", f"result: {text(results[0])}")


async def elicitation(server: Server) -> None:
    """A question goes out on the `tasks/result` stream; an answer and a refusal both reach the job."""
    for answer, said, ended in ((ACCEPT, "hello Ada", "completed"), (DECLINE, "declined", "failed")):
        # Without the GET stream, the question can travel on tasks/result only.
        async with server.connect(wire=Wire(listen=False), answer=answer) as peer:
            task = await peer.start("ask_name", {})
            status = await peer.poll(task.taskId, stop=("input_required", *TERMINAL))
            # Over stdio there is one stream, and the question may be answered before the next poll.
            if server.url is not None:
                check(status.status == "input_required", f"before the answer the task is {status.status}")
                check(not peer.questions, "a question came although no stream was open")
            result = await peer.result(task.taskId)
            check_question(peer, task.taskId)
            check(said in text(result), f"after {answer.action}: {text(result)}")
            check(bool(result.isError) == (ended == "failed"), f"after {answer.action}: isError {result.isError}")
            status = await peer.tasks.get_task(task.taskId)
            check(status.status == ended, f"after {answer.action} the task is {status.status}")


async def elicitation_polling(server: Server) -> None:
    """A client that only polls is asked on its GET stream, and the task goes on."""
    async with server.connect() as peer:
        task = await peer.start("ask_name", {})
        status = await peer.poll(task.taskId)
        check(status.status == "completed", f"the task ended {status.status}: {status.statusMessage}")
        check_question(peer, task.taskId)
        check(text(await peer.result(task.taskId)) == "hello Ada", "the result does not reflect the answer")


async def own_tasks(server: Server) -> None:
    """A client that makes a task of its own of a question is asked for the answer there, on whichever stream it has."""
    for listen in (True, False):
        own = OwnTasks()
        async with server.connect(own=own, wire=Wire(listen=listen)) as peer, anyio.create_task_group() as group:
            task = await peer.start("ask_name", {})
            results: list[types.CallToolResult] = []

            async def fetch() -> None:
                results.append(await peer.result(task.taskId))

            group.start_soon(fetch)
            await own.until(lambda: bool(own.tasks))
            check((own.questions[0].task.ttl or 0) > 0, f"the question has no ttl: {own.questions[0].task}")
            # It is looked at once more at least while nobody has answered.
            await anyio.sleep(1.5)
            check(not results and not own.fetched, "the result was fetched before there was one")
            await own.answer(own.tasks[0], ACCEPT)
            status = await peer.poll(task.taskId, stop=TERMINAL)
            check(status.status == "completed", f"the task ended {status.status}: {status.statusMessage}")
        check(text(results[0]) == "hello Ada", f"the result does not reflect the answer: {text(results[0])}")
        check(own.fetched == own.tasks, f"tasks {own.tasks} were made, and {own.fetched} fetched")
        check_question(own, task.taskId)


async def own_tasks_cancelled(server: Server) -> None:
    """A client's task whose answer nobody wants any more is cancelled."""
    own = OwnTasks()
    async with server.connect(own=own) as peer:
        task = await peer.start("ask_name", {})
        await own.until(lambda: bool(own.tasks))
        await peer.tasks.cancel_task(task.taskId)
        while await own.status(own.tasks[0]) != "cancelled":
            await own.changed.wait()
        check(not own.fetched, "its result was fetched")


def check_question(peer: Peer | OwnTasks, task_id: str) -> None:
    """Exactly one question came, with the form of `ask_name` and the task it belongs to."""
    check(len(peer.questions) == 1, f"{len(peer.questions)} questions came in place of one")
    question = peer.questions[0]
    check(isinstance(question, types.ElicitRequestFormParams), f"the question is {type(question).__name__}")
    check(list(question.requestedSchema["properties"]) == ["name"], f"schema: {question.requestedSchema}")
    related = question.meta.model_dump().get(RELATED_TASK) if question.meta else None
    check(related == {"taskId": task_id}, f"the question carries related-task {related}")


async def cancel(server: Server) -> None:
    """A cancelled task stays cancelled, releases who waits for it, and cannot be cancelled twice."""
    async with server.connect() as peer:
        task = await peer.start("count", ENDLESS)
        results: list[types.CallToolResult] = []

        async def fetch() -> None:
            results.append(await peer.result(task.taskId))

        async with anyio.create_task_group() as group:
            group.start_soon(fetch)
            status = await peer.tasks.cancel_task(task.taskId)
            check(status.status == "cancelled", f"tasks/cancel answers {status.status}")
        check(results[0].isError, "the blocked tasks/result of a cancelled task is no error")
        await refused(INVALID_PARAMS, peer.tasks.cancel_task(task.taskId))
        check((await peer.tasks.get_task(task.taskId)).status == "cancelled", "the task did not stay cancelled")
        result = await peer.result(task.taskId)
        check(result.isError and text(result), "tasks/result of a cancelled task does not say why")


async def list_pages(server: Server) -> None:
    """`tasks/list` gives every own task once, over several pages."""
    async with server.connect() as peer:
        own = {(await peer.start("echo_text", {"text": f"note {n}"})).taskId for n in range(12)}
        found = await pages(peer.tasks.list_tasks)
        listed = [task.taskId for page in found for task in page.tasks]
        check(len(found) > 2, f"12 tasks came on {len(found)} pages; the scenario needs a small page size")
        check(len(set(listed)) == len(listed), "tasks/list repeats a task")
        check(own <= set(listed), f"{len(own - set(listed))} own tasks are not listed")
        await refused(INVALID_PARAMS, peer.tasks.list_tasks("no cursor of this server"))


async def failing_job(server: Server) -> None:
    """A job that fails makes its task `failed`, with the reason in the status and in the result."""
    async with server.connect() as peer:
        task = await peer.start("fail_job", {"code": 3})
        status = await peer.poll(task.taskId)
        check(status.status == "failed", f"the task ended {status.status}")
        check("on purpose" in (status.statusMessage or ""), f"statusMessage is {status.statusMessage!r}")
        result = await peer.result(task.taskId)
        check(result.isError and "on purpose" in text(result), f"result: {text(result)}")
        check((await peer.session.call_tool("fail_job", {"code": 3})).isError, "a plain call that failed is no error")


async def plain_call(server: Server) -> None:
    """A call without a task waits for a quick job and answers with its result."""
    async with server.connect() as peer:
        result = await peer.session.call_tool("echo_text", {"text": "grüße, 世界"})
        check(not result.isError and text(result) == "grüße, 世界", f"result: {text(result)!r}")


async def typed_handle(server: Server) -> None:
    """A slow typed tool answers with a handle that fits its schema; `task_wait` brings the result."""
    async with server.connect() as peer:
        # The library validates against the schemas it has seen, so it must have seen them all.
        await all_tools(peer)
        handle = (await peer.session.call_tool("typed_slow", {"ms": 3500})).structuredContent or {}
        task_id = handle.get("task_id")
        check(isinstance(task_id, str) and handle.get("status") == "working", f"handle: {handle}")
        answer = handle
        while "task_id" in answer:
            waited = await peer.session.call_tool("task_wait", {"task_id": task_id})
            check(not waited.isError, f"task_wait: {text(waited)}")
            answer = waited.structuredContent or {}
        check(answer == {"answer": 42}, f"task_wait brought {answer}")
        result = await peer.result(task_id)
        check(result.structuredContent == {"answer": 42}, f"tasks/result brought {result.structuredContent}")


async def reconnect(server: Server) -> None:
    """A task outlives its session, whether that ended properly or was dropped."""
    for end in (True, False):
        async with server.connect(end=end) as peer:
            task = await peer.start("count", {"to": 20, "delay_ms": 100})
        async with server.connect() as peer:
            status = await peer.tasks.get_task(task.taskId)
            check(status.createdAt == task.createdAt, "another task came back")
            check(text(await peer.result(task.taskId)) == "counted to 20", "the result was lost")


async def resume_stream(server: Server) -> None:
    """A broken `tasks/result` stream is resumed by the library with `Last-Event-ID`."""
    wire = Wire(cut="tasks/result")
    async with server.connect(wire=wire) as peer:
        task = await peer.start("count", {"to": 10, "delay_ms": 100})
        check(text(await peer.result(task.taskId)) == "counted to 10", "the result was lost")
        check(len(wire.resumed) == 1, f"the stream was resumed {len(wire.resumed)} times")


async def progress(server: Server) -> None:
    """The token of the call gets strictly increasing progress after the task was created."""
    async with server.connect() as peer:
        # The library drops progress callbacks with the first response, so the token is set by hand.
        task = await peer.start("count", {"to": 20, "delay_ms": 100}, meta={"progressToken": "e2e progress"})
        await peer.until(lambda: len(peer.progress) >= 2)
        check((await peer.poll(task.taskId)).status == "completed", "the task did not complete")
        steps = [step.progress for step in peer.progress]
        check(all(step.progressToken == "e2e progress" for step in peer.progress), "a foreign token came")
        check(
            all(low < high for low, high in zip(steps, steps[1:], strict=False)), f"progress does not increase: {steps}"
        )
        check(steps[-1] <= 20 and peer.progress[-1].total == 20, f"progress ran to {steps[-1]}")


async def status_notifications(server: Server) -> None:
    """The origin session is told when its task ends, with the whole task."""
    async with server.connect() as peer:
        # Long enough for the library to have opened its GET stream before the end.
        task = await peer.start("count", {"to": 20, "delay_ms": 100})
        await peer.until(lambda: any(seen.status == "completed" for seen in peer.statuses))
        check({seen.taskId for seen in peer.statuses} == {task.taskId}, "a foreign task was announced")
        last = peer.statuses[-1]
        check(last.createdAt == task.createdAt, "the notification is of another task")
        related = last.meta.model_dump().get(RELATED_TASK) if last.meta else None
        check(related is None, "a status notification must not carry related-task")


async def errors(server: Server) -> None:
    """Refused requests are JSON-RPC errors, after which the session still works."""
    async with server.connect() as peer:
        await refused(INVALID_PARAMS, peer.tasks.get_task("no such task"))
        await refused(INVALID_PARAMS, peer.result("no such task"))
        await refused(INVALID_PARAMS, peer.tasks.cancel_task("no such task"))
        await refused(INVALID_PARAMS, peer.start("no_such_tool", {}))
        await peer.session.send_ping()


# Over stdio there is no stream to resume.
HTTP_ONLY = {"resume_stream": resume_stream}
SCENARIOS = {
    "list": list_tools,
    "call_as_task": call_as_task,
    "blocked_result": blocked_result,
    "elicitation": elicitation,
    "elicitation_polling": elicitation_polling,
    "own_tasks": own_tasks,
    "own_tasks_cancelled": own_tasks_cancelled,
    "cancel": cancel,
    "list_pages": list_pages,
    "failing_job": failing_job,
    "plain_call": plain_call,
    "typed_handle": typed_handle,
    "reconnect": reconnect,
    "progress": progress,
    "status_notifications": status_notifications,
    "errors": errors,
}


def reason(error: BaseException) -> str:
    """The first real error inside the groups that the library's task groups make."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}".replace("\n", " ")


async def run(server: Server, names: list[str]) -> int:
    scenarios = SCENARIOS | (HTTP_ONLY if server.url is not None else {})
    unknown = [name for name in names if name not in scenarios]
    if unknown:
        print(f"unknown scenario {unknown[0]}; known: {', '.join(scenarios)}", file=sys.stderr)
        return 2
    failed = 0
    for name in names or scenarios:
        try:
            with anyio.fail_after(SCENARIO_SECONDS):
                await scenarios[name](server)
            print(f"ok {name}", flush=True)
        except Exception as error:
            failed += 1
            print(f"FAIL {name}: {reason(error)}", flush=True)
    print(f"{len(names or scenarios) - failed} passed, {failed} failed")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="End-to-end scenarios with the Python mcp client.")
    parser.add_argument("url", nargs="?", help="MCP endpoint, for instance http://127.0.0.1:8808/mcp")
    parser.add_argument("--only", default="", help="names of scenarios, separated by commas")
    parser.add_argument("--stdio", nargs=argparse.REMAINDER, default=[], help="command of a stdio server")
    options = parser.parse_args()
    if (options.url is None) == (not options.stdio):
        parser.error("give either a URL or --stdio COMMAND")
    server = Server(options.url, options.stdio)
    return anyio.run(run, server, [name for name in options.only.split(",") if name])


if __name__ == "__main__":
    sys.exit(main())
