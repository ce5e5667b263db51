"""What an adapter written with the SDK says on the wire."""

import base64
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from taskbridge_adapter.testing import SECONDS, CallFailed, Program, fresh_key, spec, state_of

HERE = Path(__file__).parent
SAMPLE = [sys.executable, str(HERE / "sample.py")]


class Wire(unittest.TestCase):
    def setUp(self):
        self.log = tempfile.TemporaryFile()
        self.program = Program(SAMPLE, {"size": 3}, {"token": "t"}, stderr=self.log)
        self.addCleanup(self.log.close)
        self.addCleanup(lambda: self.program.stop() if self.program.process.poll() is None else None)

    def start(self, **arguments):
        return self.program.start({"place": "here"}, arguments)

    def fails(self, method, params, kind):
        with self.assertRaises(CallFailed) as caught:
            self.program.call(method, params)
        self.assertEqual(caught.exception.kind, kind, caught.exception.error)
        return caught.exception.error

    def test_initialize_names_what_the_class_has(self):
        self.assertEqual(
            self.program.initialized,
            {
                "protocol": 1,
                "once": "key",
                "key_lasts_ms": 60_000,
                "identity": "sample here",
                "list_lag_ms": 1500,
                "abilities": ["answer", "log", "artifact", "discover", "check_up", "changed", "notes"],
                "schemas": {
                    "config": {"type": "object", "properties": {"size": {"type": "integer"}}},
                    "target": {"type": "object"},
                },
            },
        )
        self.assertEqual(self.program.call("describe")["secrets"], ["token"])

    def test_wrong_config_names_the_member(self):
        for config, says in (({}, "config.size is missing; add it"), ({"size": 10}, "config.size is larger than 9")):
            with self.assertRaisesRegex(CallFailed, says) as caught:
                Program(SAMPLE, config, stderr=self.log)
            self.assertEqual(caught.exception.kind, "config")

    def test_print_goes_to_the_log(self):
        self.log.seek(0)
        self.assertEqual(self.log.read(), b"hello from print\nhello from a child\n")

    def test_same_key_is_the_same_job(self):
        key = fresh_key()
        self.assertIsNone(self.program.find(key))
        for may_exist in (False, True, True):
            self.assertEqual(self.program.start({"place": "here"}, {}, key, may_exist), key)
        self.assertEqual(self.program.find(key), {"handle": key})

    def test_states_are_those_of_the_protocol(self):
        text = lambda text: {"content": [{"type": "text", "text": text}]}  # noqa: E731
        for arguments, expected in (
            ({}, {"state": "queued"}),
            (
                {"state": "succeeded", "result": []},
                {
                    "state": {"succeeded": text("[]") | {"structured": []}},
                    "notes": [
                        {"n": 1, "data": "it began", "level": "info"},
                        {"n": 2, "data": {"rows": 3}, "level": "warning"},
                    ],
                    "link": "https://engine.example/1",
                },
            ),
            ({"state": "set"}, {"state": {"succeeded": text('"{1, 2}"') | {"structured": "{1, 2}"}}}),
            ({"state": "nan"}, {"state": {"succeeded": text("nan")}}),
            ({"state": "surrogate"}, {"state": {"succeeded": text("? and so on")}}),
            ({"state": "deep"}, {"state": {"succeeded": text("[" * 500 + "null" + "]" * 500)}}),
            ({"state": "failed"}, {"state": {"failed": text("line one\nline two")}, "message": "line one line two"}),
            ({"state": "cancelled"}, {"state": {"cancelled": {}}}),
            (
                {"state": "asks"},
                {
                    "state": "running",
                    "message": "asks",
                    "progress": {"done": 1, "total": 4},
                    "questions": [{"id": "q", "message": "Go on?", "schema": {"type": "object", "properties": {}}}],
                },
            ),
            ({"state": "broken"}, {"error": {"kind": "unavailable", "message": "RuntimeError: cannot look"}}),
        ):
            with self.subTest(arguments):
                self.assertEqual(self.program.observe(self.start(**arguments)), [expected])
        self.assertEqual(self.program.observe("unknown"), [{"state": "gone"}])
        self.assertIn(
            "must come from running()", self.program.observe(self.start(state="wrong"))[0]["error"]["message"]
        )

    def test_many_jobs_are_answered_in_order(self):
        handles = [self.start(state=state) for state in ("failed", "broken", "cancelled")] * 20
        seen = self.program.observe(*handles)
        self.assertEqual(["error" in each or state_of(each) for each in seen], ["failed", True, "cancelled"] * 20)
        self.assertEqual(self.program.observe(), [])

    def test_large_outputs_fit_into_a_line(self):
        one = self.program.observe(self.start(state="too large"))[0]
        self.assertIn("at most 1048576 can be returned", one["state"]["succeeded"]["content"][0]["text"])
        seen = self.program.observe(*(self.start(state="large") for _ in range(6)))
        self.assertEqual(["state" in each for each in seen], [True] * 3 + [False] * 3)

    def test_many_values_fit_into_a_message(self):
        """The server refuses a message of more than 400,000 values."""
        one = self.program.observe(self.start(state="many", values=100_001))[0]
        self.assertNotIn("structured", one["state"]["succeeded"])
        seen = self.program.observe(*(self.start(state="many", values=90_000) for _ in range(5)))
        self.assertEqual(["state" in each for each in seen], [True] * 3 + [False] * 2)

    def test_exceptions_have_kinds(self):
        def start(what, may_exist=False):
            return spec({"place": "here"}, {"start": what}, may_exist=may_exist)

        error = self.fails("start", start("reject"), "rejected")
        self.assertEqual(error["message"], "no room for this [1m job")
        self.assertEqual(self.fails("start", start("limit"), "limited")["data"]["after_ms"], 1500)
        self.assertIs(self.fails("start", start("lost"), "uncertain")["data"]["final"], True)
        # The engine may have taken the job before the reply was lost.
        self.fails("start", start("break"), "uncertain")
        self.fails("start", start("break", may_exist=True), "unavailable")
        self.fails("start", start("leave"), "uncertain")
        self.assertEqual(self.fails("start", spec({}, {}), "config")["message"], "target.place is missing; add it")
        self.fails("cancel", {"handle": "unknown", "by": {"groups": 7}}, "unavailable")

    def test_protocol_errors_have_codes(self):
        for method, params, code in (
            ("dance", {}, -32601),
            ("forget", {"handle": "a"}, -32601),
            ("cancel", {}, -32602),
        ):
            self.assertEqual(self.fails(method, params, "")["code"], code)
        for line in (b"{", b"[" * 100_000, b"[]", b"7", b'{"method": 7, "id": 1}', b'{"method": "unknown"}'):
            self.program.process.stdin.write(line + b"\n")
        self.program.process.stdin.flush()
        self.assertEqual(self.program.observe("unknown"), [{"state": "gone"}], "it still answers")

    def test_slow_call_blocks_no_other(self):
        slow = [self.program.begin("observe_all", {"group": "", "jobs": [{"handle": "slow"}]}) for _ in range(4)]
        self.assertEqual(self.program.observe("unknown"), [{"state": "gone"}])
        # They end when this call is served.
        self.program.call("cancel", {"handle": "slow"})
        for future in slow:
            self.assertEqual(future.result(SECONDS), [{"state": "gone"}])

    def test_abilities_answer(self):
        handle = self.start(state="asks")
        self.program.call("cancel", {"handle": handle, "by": {"name": "ann", "new": 1}})
        self.assertEqual(
            [each["params"] for each in self.program.notifications],
            [{"jobs": [handle]}, {"level": "warning", "text": "ann cancelled"}],
        )
        answer = {"handle": handle, "question": "q", "answer": {"action": "accept", "content": {}}}
        self.assertEqual(self.program.call("answer", answer), "accepted")
        self.assertEqual(self.program.call("answer", answer | {"question": "p"}), "too_late")
        for params, text, cut in (
            ({"max_bytes": 100}, "one\ntwo\nthree\n", False),
            ({"max_bytes": 11}, "two\nthree\n", True),
            ({"max_bytes": 2}, "e\n", True),
            ({"max_bytes": 100, "search": "TWO"}, "two\n", False),
        ):
            self.assertEqual(self.program.call("log", {"handle": handle} | params), {"text": text, "cut": cut})
        part = self.program.call("artifact", {"handle": handle, "name": "a.bin", "offset": 8, "max_bytes": 5})
        self.assertEqual(part, {"data": base64.b64encode(bytes([8, 9])).decode(), "size": 10})
        self.assertIsNone(self.program.call("artifact", {"handle": handle, "name": "b", "offset": 0, "max_bytes": 5}))
        self.assertEqual(self.program.call("discover")[0]["input_schema"], {"type": "object"})
        tools = [{"tool": "a", "target": {"n": 1}, "parameters": ["x"]}, {"tool": "b", "target": {}}]
        says = [(found["what"], found["says"]) for found in self.program.call("check_up", {"tools": tools})]
        self.assertEqual(says, [("a", "target {'n': 1}, parameters ['x']"), ("b", "target {}, parameters None")])

    def test_end_of_input_ends_the_program(self):
        self.program.begin("observe_all", {"group": "", "jobs": [{"handle": "slow"}]})
        self.program.process.stdin.close()
        self.assertEqual(self.program.process.wait(SECONDS), 0)

    def test_shutdown_ends_the_program(self):
        self.assertEqual(self.program.stop(), 0)


class Async(unittest.TestCase):
    """The methods of an adapter may be async: each waits, and none blocks another."""

    def test_async_adapter_serves(self):
        with Program([sys.executable, str(HERE / "async_sample.py")]) as program:
            futures = [program.begin("start", spec({}, {"number": number})) for number in range(16)]
            handles = [future.result(SECONDS)["handle"] for future in futures]
            self.assertEqual(program.find(handles[0]), {"handle": handles[0]})
            seen = program.observe(*handles)
            self.assertEqual([state_of(each) for each in seen], ["succeeded"] * 16)
            self.assertEqual(program.observe("broken", "unknown")[0]["error"]["message"], "RuntimeError: broken")

    def test_shortest_session_of_the_protocol_page(self):
        lines = [
            {"id": 1, "method": "initialize", "params": {"protocol": 1, "name": "a", "config": {}}},
            {"id": 2, "method": "shutdown", "params": {}},
        ]
        given = "".join(json.dumps({"jsonrpc": "2.0"} | line) + "\n" for line in lines)
        done = subprocess.run(
            [sys.executable, str(HERE / "async_sample.py")],
            input=given,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 2), done)


if __name__ == "__main__":
    unittest.main()
