"""Tests of the adapter {{name}}, over the wire as taskbridge speaks to it."""

import sys
import tempfile
import unittest
from pathlib import Path

from taskbridge_adapter.testing import Program, fresh_key, state_of

ADAPTER = [sys.executable, str(Path(__file__).with_name("adapter.py"))]


class AdapterTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.program = Program(ADAPTER, {"folder": folder.name})
        self.addCleanup(self.program.stop)

    def test_job_succeeds(self):
        handle = self.program.start({"does": "succeed"}, {"text": "hello"})
        seen = self.program.wait(handle)
        self.assertEqual(seen["state"], {"succeeded": {"content": [{"type": "text", "text": "hello"}]}})
        self.assertEqual(self.program.wait(handle), seen)

    def test_job_fails(self):
        seen = self.program.wait(self.program.start({"does": "fail"}, {"text": "x"}))
        self.assertEqual((state_of(seen), seen["message"]), ("failed", "no data for x"))

    def test_same_key_is_one_job(self):
        key = fresh_key()
        self.assertIsNone(self.program.find(key))
        first = self.program.start({"does": "succeed"}, {"text": "first"}, key)
        self.assertEqual(self.program.start({"does": "succeed"}, {"text": "second"}, key, may_exist=True), first)
        self.assertEqual(self.program.find(key), {"handle": first})
        self.assertIn("first", str(self.program.wait(first)))

    def test_job_is_cancelled(self):
        handle = self.program.start({"does": "succeed"}, {"seconds": 300})
        self.program.call("cancel", {"handle": handle})
        self.assertEqual(state_of(self.program.wait(handle)), "cancelled")

    def test_unknown_job_is_gone(self):
        self.program.call("cancel", {"handle": "unknown"})
        self.assertEqual(self.program.observe("unknown"), [{"state": "gone"}])


if __name__ == "__main__":
    unittest.main()
