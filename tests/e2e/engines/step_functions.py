"""AWS Step Functions as an engine of the run: two stand-ins, each behind a proxy that loses replies, the ten machines,
and what the stand-ins themselves say was executed.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from aws import Standin
from callers import Call
from jobs import Job, Verdict
from machines import CHILD, HEARTBEAT_SECONDS, ROLE, Machine, activity, child, definition, machines
from proxy import Proxy

STANDINS = ("localstack", "ministack")
# How likely the reply to a call is lost, by what it does to lose it.
LOSSES = {
    "StartExecution": 0.15,
    "DescribeExecution": 0.1,
    "ListExecutions": 0.1,
    "GetExecutionHistory": 0.1,
    "SendTaskSuccess": 0.3,
    "GetActivityTask": 0.1,
    "ReceiveMessage": 0.1,
    "DeleteMessage": 0.3,
}
# Calls at which a kill hurts most: served, and nobody hears of it.
MOMENTS = ("StartExecution", "SendTaskSuccess")
# As AWS says that it is too much.
THROTTLED = (
    400,
    b'{"__type": "ThrottlingException", "message": "Rate exceeded"}',
    "content-type: application/x-amz-json-1.0\r\n",
)
CREDENTIALS = "[profile tester]\naws_access_key_id = AKIATEST\naws_secret_access_key = none\n"


class StepFunctions:
    def __init__(self, installed: Path, work: Path, log: IO[bytes], seed: int) -> None:
        self.moments = MOMENTS
        self._work = work
        self._standins = {name: Standin(name, installed / "standins", work / name, log) for name in STANDINS}
        self.proxies = {
            name: Proxy(standin.port, LOSSES, seed + at, name_of, THROTTLED)
            for at, (name, standin) in enumerate(self._standins.items())
        }
        localstack = self._standins["localstack"]
        localstack.call("CreateActivity", name="ask")
        queue = localstack.call("CreateQueue", QueueName="ask")["QueueUrl"]
        self._make("localstack", CHILD, child())
        self.works: list[Machine] = machines(queue)
        for machine in self.works:
            self._make(machine.standin, machine.name, definition(machine))

    def _make(self, standin: str, name: str, states: dict[str, object]) -> None:
        made = {"name": name, "definition": json.dumps(states), "roleArn": ROLE}
        self._standins[standin].call("CreateStateMachine", **made)

    def config(self) -> str:
        """The backends and tools of the bridge."""
        (self._work / "aws").write_text(CREDENTIALS)
        parts = []
        for name, proxy in self.proxies.items():
            url = f"http://127.0.0.1:{proxy.port}"
            parts.append(
                f'[backends.{name}]\nkind = "step-functions"\nregion = "us-east-1"\nprofile = "tester"\n'
                f'config_file = "aws"\nendpoint = "{url}"\ncall_timeout = "2900ms"\n'
                "progress_calls_per_minute = 600\n"
            )
            if name == "localstack":
                heartbeat = HEARTBEAT_SECONDS // 3
                asks = f'activities = ["{activity()}"]\nqueue = "{url}/000000000000/ask"\n'
                parts.append(f'heartbeat = "{heartbeat}s"\n{asks}')
        parts += [
            f'[tools.{machine.name}]\nbackend = "{machine.standin}"\ndescription = "Runs {machine.name}."\n'
            f'target = {{ state_machine = "{machine.name}" }}\nparameters.label = {{ type = "string" }}\n'
            'parameters.number = { type = "integer" }\n'
            for machine in self.works
        ]
        return "".join(parts)

    def jobs(self) -> Iterator[Job]:
        """What was executed, as the stand-ins themselves say."""
        for name, standin in self._standins.items():
            for execution in standin.executions():
                machine = execution["stateMachineArn"].rpartition(":")[2]
                given = json.loads(execution["input"])
                output = execution.get("output")
                says = json.loads(output) if output else None
                yield Job(machine, given["label"], execution["status"], says, f"{name}: {execution['executionArn']}")

    def complaints(self, _calls: list[Call], _verdict: Verdict) -> list[str]:
        """The stand-ins hold nothing against a description."""
        return []

    def stop(self) -> None:
        for standin in self._standins.values():
            standin.stop()


def name_of(_method: str, _path: str, headers: dict[str, str]) -> str:
    return headers.get("x-amz-target", "").rpartition(".")[2]
