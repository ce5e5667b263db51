"""Failures of executions of Step Functions, on the stand-ins for AWS."""

import asyncio
import json
from pathlib import Path
from typing import IO, Any

from aws import Standin
from calls import Failure, Started
from machines import ROLE, arn
from proxy import Proxy, answer
from step_functions import CREDENTIALS, name_of

UNAUTHORIZED = (
    "User: arn:aws:iam::000000000000:user/tester is not authorized to perform: states:StartExecution on resource: "
    f"{arn('payroll')} because no identity-based policy allows the states:StartExecution action"
)
# As Lambda writes down what a function threw.
FRAMES = [
    f'  File "/var/task/orders/{name}.py", line {line}, in {name}\n    {code}\n'
    for name, line, code in [
        ("handler", 12, "return charge(event)"),
        ("charge", 48, "rate = total / len(items)"),
    ]
]
THROWN = json.dumps(
    {
        "errorMessage": "division by zero",
        "errorType": "ZeroDivisionError",
        "requestId": "9f1c2d3e-0000-4000-8000-5a6b7c8d9e0f",
        "stackTrace": FRAMES,
    }
)
# The address of an execution.
PAGE = "https://us-east-1.console.aws.amazon.com/states/home?region=us-east-1#/v2/executions/details/"


def ends(**state: Any) -> dict[str, Any]:
    return {**state, "End": True}


def fails(error: str, cause: str) -> dict[str, Any]:
    return {"Type": "Fail", "Error": error, "Cause": cause}


def machine(start: str, states: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"StartAt": start, "States": states, **more}


def machines() -> dict[str, dict[str, Any]]:
    each = machine(
        "Check",
        {
            "Check": {
                "Type": "Choice",
                "Choices": [{"Variable": "$.amount", "NumericLessThan": 0, "Next": "Refuse"}],
                "Default": "Take",
            },
            "Refuse": fails("NegativeAmount", "order 2 has a negative amount"),
            "Take": ends(Type="Pass"),
        },
    )
    orders = [{"amount": 7}, {"amount": -1}, {"amount": 9}]
    child = {
        "Type": "Task",
        "Resource": "arn:aws:states:::states:startExecution.sync:2",
        "Parameters": {"StateMachineArn": arn("charge"), "Input": {"card": "4242"}},
    }
    missing = {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Parameters": {"FunctionName": "no-such-function", "Payload": {}},
    }
    return {
        "reserve": machine(
            "Reserve",
            {"Reserve": {"Type": "Pass", "Next": "SoldOut"}, "SoldOut": fails("SoldOut", "no seats are left in row 7")},
        ),
        "wait_for_stock": machine("WaitForStock", {"WaitForStock": ends(Type="Wait", Seconds=600)}, TimeoutSeconds=2),
        "route": machine(
            "BySize",
            {
                "BySize": {
                    "Type": "Choice",
                    "Choices": [{"Variable": "$.size", "StringEquals": "small", "Next": "Small"}],
                },
                "Small": ends(Type="Pass"),
            },
        ),
        "charge": machine("Charge", {"Charge": fails("CardDeclined", "the bank refused the card")}),
        "checkout": machine("ChargeCard", {"ChargeCard": ends(**child)}),
        "take_orders": machine(
            "Read",
            {
                "Read": {"Type": "Pass", "Result": orders, "ResultPath": "$.orders", "Next": "Orders"},
                "Orders": ends(Type="Map", ItemsPath="$.orders", ItemProcessor=each),
            },
        ),
        "invoice": machine("Invoice", {"Invoice": fails("ZeroDivisionError", THROWN)}),
        "notify": machine("Send", {"Send": ends(**missing)}),
        "nightly": machine("Run", {"Run": ends(Type="Wait", Seconds=600)}),
        "pick": machine("Pick", {"Pick": ends(Type="Pass", InputPath="$.order.id")}),
        "load": machine(
            "Load", {"Load": fails("BadRows", "; ".join(f"row {row} has no key" for row in range(1, 401)))}
        ),
        "payroll": machine("Pay", {"Pay": ends(Type="Pass")}),
    }


class Denying(Proxy):
    """A proxy to an account whose user may look at everything and start nothing."""

    def __init__(self, upstream: int) -> None:
        super().__init__(upstream, {}, 0, name_of, (400, b"", ""))

    async def _forward(self, request: bytes) -> bytes:
        if b".StartExecution\r\n" not in request.partition(b"\r\n\r\n")[0] + b"\r\n":
            return await super()._forward(request)
        body = {"__type": "AccessDeniedException", "message": UNAUTHORIZED}
        return answer(400, json.dumps(body).encode(), "content-type: application/x-amz-json-1.0\r\n")


class StepFunctions:
    def __init__(self, installed: Path, work: Path, log: IO[bytes]) -> None:
        self._work = work
        # Each does right what the other does not.
        self._standins = {
            name: Standin(name, installed / "standins", work / name, log) for name in ("localstack", "ministack")
        }
        self._denying = Denying(self._standins["localstack"].port)
        for name, definition in machines().items():
            for standin in self._standins.values():
                standin.call("CreateStateMachine", name=name, definition=json.dumps(definition), roleArn=ROLE)
        self.examples = [
            (r":tb-[a-z2-7]+\b", ":tb-aaaaaaaaaaaaaaaaaaaaaaaaaa"),
            (r"localhost(\.localstack\.cloud)?:\d+", "localhost:4566"),
        ]

    def config(self) -> str:
        (self._work / "aws").write_text(CREDENTIALS)
        return "".join(
            f'[backends.{name}]\nkind = "step-functions"\nregion = "us-east-1"\nprofile = "tester"\n'
            f'config_file = "aws"\nendpoint = "http://127.0.0.1:{port}"\nprogress_calls_per_minute = 600\n'
            for name, port in (
                ("engine", self._standins["localstack"].port),
                ("ministack", self._standins["ministack"].port),
                ("denied", self._denying.port),
            )
        )

    async def _abort(self, started: Started) -> None:
        await asyncio.to_thread(self._stop_execution)

    def _stop_execution(self) -> None:
        ministack = self._standins["ministack"]
        while True:
            running = ministack.call("ListExecutions", stateMachineArn=arn("nightly"), statusFilter="RUNNING")[
                "executions"
            ]
            if running:
                execution = running[0]["executionArn"]
                ministack.call(
                    "StopExecution", executionArn=execution, error="Maintenance", cause="the database is moved today"
                )
                return

    def failures(self) -> list[Failure]:
        def failure(
            title: str, name: str, which: str, why: str, what: str, arguments: dict[str, Any] | None = None, **more: Any
        ) -> Failure:
            parameters = "".join(
                f"parameters.{name} = {{ type = '{kind}' }}\n" for name, kind in more.pop("parameters", {}).items()
            )
            config = f'{parameters}target = {{ state_machine = "{name}" }}'
            return Failure(title, name, which, why, what, arguments or {}, config, **more)

        return [
            failure("a Fail state is reached", "reserve", "state `SoldOut`", "no seats are left in row 7", PAGE),
            failure(
                "the execution takes too long",
                "wait_for_stock",
                "state `WaitForStock`",
                "timed out",
                "raise `TimeoutSeconds`",
            ),
            failure(
                "no rule of a Choice matches",
                "route",
                "state `BySize`",
                "No branching option",
                '{"size":"huge"}',
                {"size": "huge"},
                parameters={"size": "string"},
            ),
            failure(
                "a child execution fails",
                "checkout",
                "state `ChargeCard`",
                "CardDeclined: the bank refused the card",
                "Steps of the child execution",
            ),
            failure(
                "an item of a Map fails",
                "take_orders",
                "state `Refuse`",
                "order 2 has a negative amount",
                '{"amount":-1}',
            ),
            failure("a function throws", "invoice", "state `Invoice`", "division by zero", "line 48, in charge"),
            failure("a function is missing", "notify", "state `Send`", "Function not found", PAGE),
            failure(
                "a path finds nothing in the input",
                "pick",
                "state `Pick`",
                "$.order.id",
                '{"order":"7"}',
                {"order": "7"},
                parameters={"order": "string"},
            ),
            failure("a cause is very long", "load", "state `Load`", "row 400 has no key", PAGE),
            failure(
                "somebody else stops the execution",
                "nightly",
                "the execution was stopped",
                "the database is moved today",
                PAGE,
                backend="ministack",
                meanwhile=self._abort,
            ),
            failure(
                "the credentials may not start it",
                "payroll",
                "StartExecution",
                "is not authorized",
                "states:StartExecution action",
                backend="denied",
            ),
            failure(
                "there is no such state machine",
                "missing",
                "state machine `missing`",
                "there is no",
                "in the region `us-east-1`",
            ),
        ]

    def stop(self) -> None:
        for standin in self._standins.values():
            standin.stop()
