"""AWS Step Functions as an engine of the run: two stand-ins, each behind a proxy that loses replies and lags, the ten machines,
events as EventBridge posts them, and what the stand-ins themselves say was executed.
"""

import json
import threading
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO

from aws import Standin
from callers import Calls
from jobs import Job, Verdict
from lag import LAG, Lag
from machines import CHILD, HEARTBEAT_SECONDS, ROLE, Machine, activity, child, definition, machines
from peer import SECONDS
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
# How long after its start events of an execution are posted, in seconds: the first while no read knows it.
POSTED = (0, 1, LAG)
SECRET = "only EventBridge knows"
CREDENTIALS = "[profile tester]\naws_access_key_id = AKIATEST\naws_secret_access_key = none\n"


class StepFunctions:
    # How many there are over one store.
    bridges = 2

    def __init__(self, installed: Path, work: Path, log: IO[bytes], seed: int) -> None:
        self.moments = MOMENTS
        self._work = work
        self._hooks: list[str] = []
        # The statuses that events were answered with; 0 where nobody listened.
        self._answers: list[int] = []
        self._standins = {name: Standin(name, installed / "standins", work / name, log) for name in STANDINS}
        self._lags = {name: Lag(partial(self._post, name)) for name in STANDINS}
        self.proxies = {
            name: Proxy(standin.port, LOSSES, seed + at, name_of, THROTTLED, self._lags[name])
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
                f'progress_calls_per_minute = 600\nhook_secret = "{SECRET}"\n'
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

    def post_to(self, hooks: list[str]) -> None:
        """Has events posted to all of these, so that one at least reaches a bridge that does not watch the execution."""
        self._hooks = hooks

    def _post(self, standin: str, arn: str) -> None:
        for hook in self._hooks:
            for seconds in POSTED:
                timer = threading.Timer(seconds, self._post_one, (f"{hook}/{standin}", arn))
                timer.daemon = True
                timer.start()

    def _post_one(self, url: str, arn: str) -> None:
        event = {
            "id": str(uuid.uuid4()),
            "detail-type": "Step Functions Execution Status Change",
            "source": "aws.states",
            "detail": {"executionArn": arn, "status": "RUNNING"},
        }
        headers = {"content-type": "application/json", "x-taskbridge-secret": SECRET}
        try:
            with urllib.request.urlopen(urllib.request.Request(url, json.dumps(event).encode(), headers), timeout=SECONDS) as answer:
                self._answers.append(answer.status)
        except urllib.error.HTTPError as refusal:
            self._answers.append(refusal.code)
        except OSError:
            # That bridge was killed.
            self._answers.append(0)

    def faults(self) -> list[tuple[int, str]]:
        """What else broke."""
        counts = sum((lag.counts for lag in self._lags.values()), Counter())
        return [
            (self._answers.count(202), f"events taken, each posted to both bridges, from the start of an execution to {POSTED[-1]} s after it"),
            (counts["unknown"], f"reads of executions that were unknown for the first {LAG} s"),
            (counts["old"], f"lists that were up to {LAG} s old"),
        ]

    def jobs(self) -> Iterator[Job]:
        """What was executed, as the stand-ins themselves say."""
        for name, standin in self._standins.items():
            for execution in standin.executions():
                machine = execution["stateMachineArn"].rpartition(":")[2]
                given = json.loads(execution["input"])
                output = execution.get("output")
                says = json.loads(output) if output else None
                yield Job(machine, given["label"], execution["status"], says, f"{name}: {execution['executionArn']}")

    def complaints(self, _calls: Calls, _verdict: Verdict) -> list[str]:
        """Events that were refused. The stand-ins hold nothing against a description."""
        return [f"an event was answered with {status}" for status in self._answers if status not in (202, 0)]

    def stop(self) -> None:
        for standin in self._standins.values():
            standin.stop()


def name_of(_method: str, _path: str, headers: dict[str, str]) -> str:
    return headers.get("x-amz-target", "").rpartition(".")[2]
