"""Stand-ins for AWS, started here, and calls of their APIs past the bridge and the proxies. No signature is made:
neither looks at one.
"""

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from peer import SECONDS, Failed

SERVE = Path(__file__).resolve().parents[3] / "adapters/step-functions/tests/standins/serve.py"
SERVICES = {"CreateQueue": ("AmazonSQS", "sqs")}


class Standin:
    """`localstack` or `ministack`, on a port of its own."""

    def __init__(self, name: str, installed: Path, folder: Path, log: IO[bytes]) -> None:
        self.name = name
        folder.mkdir()
        self._process = subprocess.Popen(
            [str(installed / name / "bin/python"), "-B", str(SERVE), name, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert self._process.stdout
        word, _, port = self._process.stdout.readline().strip().partition(" ")
        if word != "ready":
            raise Failed(f"{name} did not start")
        self.port = int(port)

    def call(self, operation: str, **body: Any) -> dict[str, Any]:
        service, scope = SERVICES.get(operation, ("AWSStepFunctions", "states"))
        credential = f"Credential=AKIATEST/20260101/us-east-1/{scope}/aws4_request"
        headers = {
            "x-amz-target": f"{service}.{operation}",
            "content-type": "application/x-amz-json-1.0",
            "authorization": f"AWS4-HMAC-SHA256 {credential}, SignedHeaders=host, Signature=0",
        }
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return json.loads(answer.read() or b"{}")

    def executions(self) -> Iterator[dict[str, Any]]:
        """All that there are, of all machines, as `DescribeExecution` tells of them."""
        for machine in self._pages("ListStateMachines", "stateMachines"):
            arn = machine["stateMachineArn"]
            for execution in self._pages("ListExecutions", "executions", stateMachineArn=arn):
                yield self.call("DescribeExecution", executionArn=execution["executionArn"])

    def _pages(self, operation: str, member: str, **body: Any) -> Iterator[dict[str, Any]]:
        more: dict[str, Any] = {}
        while True:
            page = self.call(operation, **body, **more)
            yield from page[member]
            if not page.get("nextToken"):
                return
            more = {"nextToken": page["nextToken"]}

    def stop(self) -> None:
        """It ends with its input."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(SECONDS)
