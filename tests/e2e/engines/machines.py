"""The ten state machines of the Step Functions run: their definitions, on which stand-in each runs, what it is called
with, and what must come of it. It must not know how calls are made or counted.
"""

from dataclasses import dataclass
from typing import Any

from callers import result
from peer import Failed, Peer

ROLE = "arn:aws:iam::000000000000:role/tests"
ACCOUNT = "us-east-1:000000000000"
CHILD = "child"
WAIT_SECONDS = 2
# A step that waits for an answer is handed out again when nobody was heard of for so long.
HEARTBEAT_SECONDS = 15
QUESTION = "What is your name?"
# Longer than any run: only questions of calls that nobody holds wait for so long.
DAY = 86_400


def arn(name: str) -> str:
    return f"arn:aws:states:{ACCOUNT}:stateMachine:{name}"


def activity() -> str:
    return f"arn:aws:states:{ACCOUNT}:activity:ask"


@dataclass(frozen=True)
class Machine:
    """One of the ten. `standin` is the one that does it right; the table in the adapter's README repeats it."""

    name: str
    standin: str
    states: dict[str, Any]
    # What is in the output beside the call's own label, or in what a failure tells.
    says: dict[str, Any]
    status: str = "SUCCEEDED"
    # How many executions of `CHILD` each of its executions starts.
    children: int = 0
    # The client says yes to what is asked.
    accepts: bool = True
    # The engine knows executions by their names.
    may_be_uncertain: bool = False
    begins: bool = True
    hurries: bool = False

    @property
    def definition(self) -> dict[str, Any]:
        return {"Comment": f"e2e: {self.name}", "StartAt": "First", "States": self.states}

    def arguments(self, label: str, number: int) -> dict[str, Any]:
        return {"label": label, "number": number}

    def finish(self, peer: Peer, task: str) -> dict[str, Any]:
        return result(peer, task)

    def check(self, got: dict[str, Any], label: str, number: int) -> None:
        """Fails unless this is what a call with this label must come to."""
        given = {"label": label, "number": number}
        structured = got["structured"] or {}
        if self.status == "SUCCEEDED":
            says = {**self.says}
            if self.name == "choice":
                says["size"] = "large" if number > 1 else "small"
            if self.name == "parallel":
                says["branches"] = [{"left": label}, {"right": label}]
            right = structured == {**given, **says} and not got["error"]
        else:
            told = {**self.says, "status": self.status, "input": given}
            right = got["error"] and {name: structured.get(name) for name in told} == told
        if not right:
            raise Failed(f"the result of {self.name} for {label}, {number} is {got}")


def ends(**state: Any) -> dict[str, Any]:
    return {**state, "End": True}


def asks(resource: str, **parameters: Any) -> dict[str, Any]:
    said = {
        "execution.$": "$$.Execution.Id",
        "message": QUESTION,
        "schema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    }
    if parameters:
        said = {**parameters, "MessageBody": {"token.$": "$$.Task.Token", **said}}
    again = {"ErrorEquals": ["States.HeartbeatTimeout", "States.Timeout"], "IntervalSeconds": 1, "MaxAttempts": 999}
    return ends(
        Type="Task",
        Resource=resource,
        Parameters=said,
        ResultPath="$.answer",
        TimeoutSeconds=DAY,
        HeartbeatSeconds=HEARTBEAT_SECONDS,
        Retry=[{**again, "BackoffRate": 1}],
    )


def branch(name: str) -> dict[str, Any]:
    return {"StartAt": name, "States": {name: ends(Type="Pass", Parameters={f"{name}.$": "$.label"})}}


def machines(queue: str) -> list[Machine]:
    """All ten, with the queue that one of them asks by."""
    number = {"Variable": "$.number", "NumericGreaterThan": 1, "Next": "Large"}
    size = {
        name: ends(Type="Pass", Result=name.lower(), ResultPath="$.size") for name in ("Large", "Small")
    }
    each = {"StartAt": "Each", "States": {"Each": ends(Type="Pass")}}
    nested = ends(
        Type="Task",
        Resource="arn:aws:states:::states:startExecution.sync:2",
        Parameters={"StateMachineArn": arn(CHILD), "Input": {"label.$": "$.label", "number.$": "$.number"}},
        ResultSelector={"status.$": "$.Status", "said.$": "$.Output.said"},
        ResultPath="$.child",
    )
    timeout = Machine(
        "timeout", "localstack", {"First": ends(Type="Wait", Seconds=600)}, {}, status="TIMED_OUT"
    )
    return [
        Machine("pass", "ministack", {"First": ends(Type="Pass", Result="yes", ResultPath="$.went")}, {"went": "yes"}),
        Machine("wait", "ministack", {"First": ends(Type="Wait", Seconds=WAIT_SECONDS)}, {}),
        Machine(
            "choice", "ministack", {"First": {"Type": "Choice", "Choices": [number], "Default": "Small"}, **size}, {}
        ),
        Machine(
            "parallel",
            "localstack",
            {"First": ends(Type="Parallel", Branches=[branch("left"), branch("right")], ResultPath="$.branches")},
            {},
        ),
        Machine(
            "map",
            "localstack",
            {
                "First": {"Type": "Pass", "Result": [1, 2, 3], "ResultPath": "$.items", "Next": "Items"},
                "Items": ends(Type="Map", ItemsPath="$.items", ItemProcessor=each, ResultPath="$.done"),
            },
            {"items": [1, 2, 3], "done": [1, 2, 3]},
        ),
        Machine(
            "fail",
            "ministack",
            {"First": {"Type": "Fail", "Error": "Broken", "Cause": "on purpose"}},
            {"error": "Broken", "cause": "on purpose", "state": "First"},
            status="FAILED",
        ),
        timeout,
        Machine(
            "token",
            "localstack",
            {"First": asks("arn:aws:states:::sqs:sendMessage.waitForTaskToken", QueueUrl=queue)},
            {"answer": {"name": "Ada"}},
        ),
        Machine("activity", "localstack", {"First": asks(activity())}, {"answer": {"name": "Ada"}}),
        Machine(
            "nested",
            "localstack",
            {"First": nested},
            {"child": {"status": "SUCCEEDED", "said": "hello"}},
            children=1,
        ),
    ]


def definition(machine: Machine) -> dict[str, Any]:
    """What is created: the one that times out has a limit of its own."""
    limit = {"TimeoutSeconds": WAIT_SECONDS} if machine.status == "TIMED_OUT" else {}
    return {**machine.definition, **limit}


def child() -> dict[str, Any]:
    """The machine that the nested one starts."""
    return {"StartAt": "Say", "States": {"Say": ends(Type="Pass", Result="hello", ResultPath="$.said")}}
