"""The HTTP service of the SDK over real sockets: its proofs, its sessions and its limits."""

import base64
import concurrent.futures
import hashlib
import hmac
import http.client
import json
import re
import select
import subprocess
import sys
import time
import unittest
from pathlib import Path

HERE = Path(__file__).parent
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
PROGRAM = "import sys; sys.path.insert(0, {here!r}); from sample import Sample; from taskbridge_adapter import serve_http; serve_http(Sample, port=0, {auth})"
SECONDS = 60


def signature(body, at=None, id="m1", secret=SECRET):
    at = str(int(time.time()) if at is None else at)
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = hmac.new(key, f"{id}.{at}.".encode() + body, hashlib.sha256).digest()
    return {"webhook-id": id, "webhook-timestamp": at, "webhook-signature": "v1," + base64.b64encode(signed).decode()}


def call(method, params=None, id=1):
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}).encode()


class Service:
    def __init__(self, test, auth):
        program = PROGRAM.format(here=str(HERE), auth=auth)
        self.process = subprocess.Popen([sys.executable, "-B", "-c", program], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        test.addCleanup(self.process.stderr.close)
        test.addCleanup(self.process.wait, SECONDS)
        test.addCleanup(self.process.kill)
        self.port = int(re.search(r":(\d+)/", self.process.stderr.readline()).group(1))

    def post(self, body, headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.request("POST", "/adapter", body, headers)
            reply = connection.getresponse()
            text = reply.read()
            return reply.status, json.loads(text) if text else None, reply.headers.get("Taskbridge-Session")
        finally:
            connection.close()


class ServiceTest(unittest.TestCase):
    def setUp(self):
        self.params = {"protocol": 1, "name": "t", "config": {"size": 3}, "secrets": {}, "call_limit_ms": 9000}

    def begin(self, service, headers):
        status, reply, session = service.post(call("initialize", self.params), headers)
        self.assertEqual((status, reply["result"]["once"]), (200, "key"), reply)
        return {"Taskbridge-Session": session} | headers

    def test_bearer_is_required(self):
        service = Service(self, "bearer='b-secret'")
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "b-secret"}):
            self.assertEqual(service.post(call("describe"), headers)[0], 401)
        headers = self.begin(service, {"Authorization": "Bearer b-secret"})
        self.assertEqual(service.post(call("observe_all", {"group": "", "jobs": []}), headers)[1]["result"], [])

    def test_signature_covers_time_and_body(self):
        service = Service(self, f"hmac={SECRET!r}")
        body, now = call("describe"), int(time.time())
        other = "whsec_" + base64.b64encode(bytes(32)).decode()
        for headers in (
            {},
            signature(body, secret=other),
            signature(body, now - 400),
            signature(body, now + 400),
            signature(call("start")),
            signature(body) | {"webhook-timestamp": str(now + 1)},
            signature(body) | {"webhook-timestamp": "9" * 5000},
            signature(body) | {"webhook-id": "m2"},
            signature(body) | {"webhook-signature": "v1,"},
        ):
            self.assertEqual(service.post(body, headers)[0], 401, headers)
        self.assertEqual(service.post(body, signature(body))[1]["result"]["protocol"], 1)
        two = signature(body)
        two["webhook-signature"] = "v1,AAAA " + two["webhook-signature"]
        self.assertEqual(service.post(body, two)[0], 200)

    def test_session_is_required_and_shared(self):
        service, headers = Service(self, "bearer='b'"), {"Authorization": "Bearer b"}
        look = call("observe_all", {"group": "", "jobs": []})
        self.assertEqual(service.post(look, headers)[0], 404)
        self.assertEqual(service.post(look, headers | {"Taskbridge-Session": "unknown"})[0], 404)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            sessions = {each["Taskbridge-Session"] for each in pool.map(lambda _: self.begin(service, headers), range(16))}
        self.assertEqual(len(sessions), 1, "equal backends share an adapter")
        self.params["name"] = "other"
        self.assertNotIn(self.begin(service, headers)["Taskbridge-Session"], sessions)
        self.params["config"] = {}
        status, reply, _ = service.post(call("initialize", self.params), headers)
        self.assertEqual((status, reply["error"]["data"]["kind"]), (200, "config"))

    def test_wrong_requests_are_answered(self):
        service, headers = Service(self, "bearer='b'"), {"Authorization": "Bearer b"}
        self.assertEqual(service.post(b"{", headers)[1]["error"]["code"], -32700)
        self.assertEqual(service.post(b"[" * 100_000, headers)[1]["error"]["code"], -32700)
        for length, status in (("17000000", 413), ("x", 411), ("-1", 411), ("\u00b2", 411), ("9" * 5000, 411)):
            self.assertEqual(service.post(b"", headers | {"Content-Length": length})[0], status, length)
        self.assertEqual(service.post(call("describe"), headers)[0], 200)

    def test_unproven_body_is_not_kept(self):
        """The headers alone refuse a request, before any byte of its body arrives."""
        bearer, signed = Service(self, "bearer='b'"), Service(self, f"hmac={SECRET!r}")
        late = signature(b"", int(time.time()) - 400)
        for service, headers in ((bearer, {"Authorization": "Bearer wrong"}), (signed, {}), (signed, late)):
            reply = self.begin_body(service, headers, 16_000_000)
            self.assertEqual(reply.getresponse().status, 401)

    def test_unproven_bodies_are_bounded(self):
        """Long bodies that are on their way leave no memory for more, and short ones are read in any case."""
        service, now = Service(self, f"hmac={SECRET!r}"), {"webhook-timestamp": str(int(time.time()))}
        headers = now | {"webhook-id": "m", "webhook-signature": "v1,AAAA"}
        requests = {(each := self.begin_body(service, headers, 16_000_000)).sock: each for _ in range(5)}
        # One of five does not fit, whichever came last.
        refused = select.select(list(requests), [], [], SECONDS)[0]
        self.assertEqual([requests[sock].getresponse().status for sock in refused], [429])
        body = call("describe")
        self.assertEqual(service.post(body, signature(body))[0], 200)

    def begin_body(self, service, headers, length):
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=SECONDS)
        self.addCleanup(connection.close)
        connection.putrequest("POST", "/adapter")
        for name, value in (headers | {"Content-Length": str(length)}).items():
            connection.putheader(name, value)
        connection.endheaders(b"x")
        return connection

    def test_hints_go_along_with_replies(self):
        service, headers = Service(self, "bearer='b'"), {"Authorization": "Bearer b"}
        headers = self.begin(service, headers)
        reply = service.post(call("cancel", {"handle": "a"}), headers)[1]
        self.assertEqual((reply["result"], reply["changed"]), (None, ["a"]))
        self.assertNotIn("changed", service.post(call("observe_all", {"group": "", "jobs": []}), headers)[1])

    def test_secrets_are_required(self):
        for auth in ("", "bearer='a', hmac='b'", "hmac='short'"):
            program = PROGRAM.format(here=str(HERE), auth=auth)
            done = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, timeout=SECONDS)
            self.assertNotEqual(done.returncode, 0)

    def test_sigterm_ends_it(self):
        service = Service(self, "bearer='b'")
        service.process.terminate()
        self.assertEqual(service.process.wait(SECONDS), 0)


if __name__ == "__main__":
    unittest.main()
