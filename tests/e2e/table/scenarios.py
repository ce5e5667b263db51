"""What every client must be able to do, said once for all of them.

A scenario drives a client (`peer.py`) against the tools of `taskbridge.toml` and fails with what it saw. It speaks of
tasks and results, and of no wire format: where the generations differ, it asks `client.modern`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from peer import Failed, Peer

if TYPE_CHECKING:
    from rows import Row

# A job that no scenario waits for to end by itself.
ENDLESS = {"to": 1000, "delay_ms": 100}
# Longer than a call waits (`call_budget`), so that a plain call is answered with a handle.
LONG = {"to": 35, "delay_ms": 100}
LONG_MS = 3500


def check(holds: Any, why: str) -> None:
    if not holds:
        raise Failed(why)


def call_as_task(row: "Row") -> None:
    """A call is answered with a task while its job runs."""
    with row.connected() as peer:
        task = peer.ask("start", tool="count", arguments=ENDLESS)
        check(task["status"] == "working", f"a new task is {task['status']}")
        seen = peer.ask("look", task=task["task"])
        check(seen["status"] == "working", f"the task is {seen}")
        stop(row, peer, task["task"])


def poll(row: "Row") -> None:
    """The task is polled until it completed."""
    with row.connected() as peer:
        task = peer.ask("start", tool="count", arguments={"to": 5, "delay_ms": 200})
        seen = peer.ask("poll", task=task["task"])
        check(seen["status"] == "completed", f"the task ended {seen}")


def result(row: "Row") -> None:
    """The result is what the job said, and comes as often as it is asked for."""
    with row.connected() as peer:
        task = peer.ask("start", tool="count", arguments={"to": 5, "delay_ms": 200})
        counted(peer.ask("result", task=task["task"]), 5)
        counted(peer.ask("result", task=task["task"]), 5)


def elicitation(row: "Row") -> None:
    """A job's question reaches the user once; an answer and a refusal both reach the job."""
    for accepts, said in ((True, "hello Ada"), (False, "declined")):
        with row.connected(accepts) as peer:
            got = finished(row, peer, "ask_name", {})
            asked = peer.ask("questions")
            check(asked == ["What is your name?"], f"the user was asked {asked}")
            check(said in got["text"], f"the result is {got}")
            check(got["error"] is not accepts, f"the result is {got}")


def confirm(row: "Row") -> None:
    """What is asked before the start reaches the user, and nothing starts without a yes."""
    for accepts in (True, False):
        with row.connected(accepts) as peer:
            # The question comes before there is a task, or as the task's first one; the library sees to both.
            got = finished(row, peer, "sure", {"delay_ms": 1000}, whole=row.modern)
            asked = peer.ask("questions")
            check(asked == ["Start the job?"], f"the user was asked {asked}")
            check(("it was started" in got["text"]) is accepts, f"the result is {got}")
            check(got["error"] is not accepts, f"the result is {got}")


def cancel(row: "Row") -> None:
    """A task that is cancelled ends so, and its result says that it was."""
    with row.connected() as peer:
        task = endless(row, peer)
        stop(row, peer, task)
        if row.tasks:
            seen = peer.ask("poll", task=task)
            check(seen["status"] == "cancelled", f"the task ended {seen}")
        else:
            got = waited_for(peer, task)
            check(got["error"] and "cancel" in got["text"].lower(), f"the result is {got}")


def failing_job(row: "Row") -> None:
    """A job that fails says why, in the task or in its result."""
    with row.connected() as peer:
        if row.tasks:
            task = peer.ask("start", tool="fail_job", arguments={"code": 3, "delay_ms": 1000})["task"]
            seen = peer.ask("poll", task=task)
            ended = "completed" if row.modern else "failed"
            check(seen["status"] == ended, f"the task ended {seen}")
            check("on purpose" in (seen["message"] or ""), f"the task ended {seen}")
            got = peer.ask("result", task=task)
        else:
            got = finished(row, peer, "fail_job", {"code": 3, "delay_ms": 0})
        check(got["error"] and "on purpose" in got["text"], f"the result is {got}")


def plain_call(row: "Row") -> None:
    """Without tasks, a long job is answered with a handle, and `task_wait` brings its result."""
    with row.connected(plain=True) as peer:
        counted(waited_for(peer, handle(peer, "count", LONG)), 35)


def typed_handle(row: "Row") -> None:
    """The handle of a typed tool passes the library's check of its output schema; so does the result."""
    with row.connected(plain=True) as peer:
        # The library checks against the schemas that it has seen.
        check("typed_slow" in peer.ask("tools"), "typed_slow is not listed")
        got = waited_for(peer, handle(peer, "typed_slow", {"ms": LONG_MS}))
        check(got["structured"] == {"answer": 42}, f"the result is {got}")


def handover(row: "Row") -> None:
    """A task that a client of the other generation started is looked at, and fetched."""
    with row.other() as other:
        task = other.ask("start", tool="count", arguments=LONG)["task"]
    with row.connected() as peer:
        if not row.tasks:
            return counted(waited_for(peer, task), 35)
        seen = peer.ask("look", task=task)
        check(seen["status"] in ("working", "completed"), f"the task is {seen}")
        counted(peer.ask("result", task=task), 35)
    return None


def header(row: "Row") -> None:
    """A parameter that proxies route by arrives whole, whatever the library made of it in a header."""
    with row.connected(plain=True) as peer:
        # The library knows from the list which parameters those are.
        peer.ask("tools")
        for region in ("eu-west", "Zürich, 東京", " two spaces  ", "=?base64?bm8=?="):
            got = finished(row, peer, "route", {"region": region, "shard": 7}, whole=True)
            check(got["text"] == f"{region}/7" and not got["error"], f"for {region!r} the result is {got}")


def progress(row: "Row") -> None:
    """A plain call reports how far it is, always further, and so does each wait if the call took too long."""
    with row.connected(plain=True) as peer:
        seen: list[float] = []
        got = {}
        tool, arguments = "count", {"to": 4, "delay_ms": 200}
        while tool:
            got = peer.ask("progress", tool=tool, arguments=arguments)
            steps = got["steps"]
            check(steps == sorted(set(steps)), f"the progress of {tool} is {steps}")
            seen += steps
            # A machine that is busy enough makes a handle of any call.
            task = (got["structured"] or {}).get("task_id")
            tool, arguments = ("task_wait", {"task_id": task}) if task else ("", {})
        check(seen, f"nothing was reported, and the result is {got}")
        check(0 < min(seen) <= max(seen) <= 4, f"the progress is {seen}")
        counted(got, 4)


def offers(row: "Row") -> None:
    """Resources and prompts of the config, and completion of a prompt's argument."""
    with row.connected() as peer:
        check("doc://release" in peer.ask("resources"), "doc://release is not listed")
        check(peer.ask("read", uri="doc://release") == "Tag, build, announce.", "doc://release reads otherwise")
        check(peer.ask("read", uri="doc://team/ops") == "The team ops.", "doc://team/ops reads otherwise")
        said = peer.ask("prompt", name="release", arguments={"channel": "beta"})
        check(said == "Release to beta.", f"the prompt says {said}")
        found = peer.ask("complete", prompt="release", argument="channel", value="be")
        check(found == ["beta"], f"the argument is completed with {found}")


def counted(got: dict[str, Any], to: int) -> None:
    check(got["text"] == f"counted to {to}" and not got["error"], f"the result is {got}")


def finished(row: "Row", peer: Peer, tool: str, arguments: dict[str, Any], whole: bool = False) -> dict[str, Any]:
    """The result of a job, by a task where the client has tasks; `whole` leaves every step to the library."""
    if row.tasks and not whole:
        return peer.ask("result", task=peer.ask("start", tool=tool, arguments=arguments)["task"])
    got = peer.ask("call", tool=tool, arguments=arguments)
    task = (got["structured"] or {}).get("task_id")
    return waited_for(peer, task) if task else got


def handle(peer: Peer, tool: str, arguments: dict[str, Any]) -> str:
    """The id of the task behind a plain call that took too long."""
    got = peer.ask("call", tool=tool, arguments=arguments)
    named = got["structured"] or {}
    check(not got["error"] and named.get("status") == "working", f"in place of a handle came {got}")
    check(named["task_id"] in got["text"], f"the text does not name the task: {got['text']}")
    return named["task_id"]


def waited_for(peer: Peer, task: str) -> dict[str, Any]:
    """What `task_wait` brings once it brings more than the handle."""
    while True:
        got = peer.ask("call", tool="task_wait", arguments={"task_id": task})
        if (got["structured"] or {}).get("task_id") != task:
            return got


def endless(row: "Row", peer: Peer) -> str:
    """A task whose job does not end by itself."""
    if row.tasks:
        return peer.ask("start", tool="count", arguments=ENDLESS)["task"]
    return handle(peer, "count", ENDLESS)


def stop(row: "Row", peer: Peer, task: str) -> None:
    if row.tasks:
        peer.ask("cancel", task=task)
    else:
        stopped = peer.ask("call", tool="task_cancel", arguments={"task_id": task})
        check(not stopped["error"], f"task_cancel said {stopped}")


SCENARIOS: dict[str, Callable[["Row"], None]] = {
    "call": call_as_task,
    "poll": poll,
    "result": result,
    "ask": elicitation,
    "confirm": confirm,
    "cancel": cancel,
    "fail": failing_job,
    "plain": plain_call,
    "typed": typed_handle,
    "handover": handover,
    "header": header,
    "progress": progress,
    "offers": offers,
}
