"""Reads of Step Functions that lag behind its starts, between a stand-in and the bridge: for some seconds an execution is unknown after its
start, and a list of executions stays as it was.
"""

import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from proxy import answer

# For how long reads lag, in seconds.
LAG = 3
# Reads of one execution.
READS = ("DescribeExecution", "GetExecutionHistory")
JSON = "content-type: application/x-amz-json-1.0\r\n"
UNKNOWN = answer(400, b'{"__type": "ExecutionDoesNotExist", "message": "Execution Does Not Exist"}', JSON)


class Lag:
    """`started` is called with the ARN of each new execution."""

    def __init__(self, started: Callable[[str], None]) -> None:
        self.counts: Counter[str] = Counter()
        self._started = started
        self._began: dict[str, float] = {}
        self._lists: dict[bytes, tuple[float, bytes]] = {}

    def instead(self, operation: str, body: bytes) -> bytes | None:
        """What is answered without the engine."""
        if operation in READS and self._is_young(json.loads(body)["executionArn"]):
            self.counts["unknown"] += 1
            return UNKNOWN
        listed_at, reply = self._lists.get(body, (0.0, b""))
        if operation == "ListExecutions" and listed_at and time.monotonic() - listed_at < LAG:
            self.counts["old"] += 1
            return reply
        return None

    def served(self, operation: str, body: bytes, reply: bytes) -> bytes:
        """What is passed on of the engine's answer."""
        head, _, content = reply.partition(b"\r\n\r\n")
        if head.split(b" ")[1:2] != [b"200"]:
            return reply
        if operation == "StartExecution":
            self._note(json.loads(content)["executionArn"])
        if operation == "ListExecutions":
            reply = self._without_young(json.loads(content))
            self._lists[body] = (time.monotonic(), reply)
        return reply

    def _note(self, arn: str) -> None:
        if arn not in self._began:
            self._began[arn] = time.monotonic()
            self._started(arn)

    def _is_young(self, arn: str) -> bool:
        return time.monotonic() - self._began.get(arn, -LAG) < LAG

    def _without_young(self, page: dict[str, Any]) -> bytes:
        page["executions"] = [one for one in page["executions"] if not self._is_young(one["executionArn"])]
        return answer(200, json.dumps(page).encode(), JSON)
