"""The example adapter in shell against Slurm itself: a cluster of one node."""

import json
import os
import subprocess
import unittest

from stage import EXAMPLES, PYTHON, ROOT, AdapterTest, until
from taskbridge_adapter.testing import SECONDS, CallFailed, fresh_key, state_of

COUNT = {"script": "count.sh"}


class SbatchTest(AdapterTest, unittest.TestCase):
    plan = {
        "unknown_handle": "999999.tb-aaaaaaaaaaaaaaaaaaaaaaaaaa",
        "succeeding": {"target": COUNT, "arguments": {"label": "suite"}, "text": "suite has 5 letters"},
        "failing": {"target": COUNT, "arguments": {"label": "fail-suite"}},
        "long": {"target": COUNT, "arguments": {"label": "suite", "seconds": 300}},
        "refused": {"target": {"script": "none.sh"}, "arguments": {}, "text": "there is no script"},
    }

    @classmethod
    def begin(cls):
        cls.cluster = subprocess.Popen(
            [PYTHON, "-B", ROOT / "tests" / "slurm" / "serve.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        cls.addClassCleanup(cls.end_cluster)
        ready, _, told = cls.cluster.stdout.readline().partition(" ")
        if ready != "ready":
            raise RuntimeError(f"the cluster does not start: {told}")
        cls.env = os.environ | {"PATH": f"{json.loads(told)['bin']}:{os.environ['PATH']}"}
        here = EXAMPLES / "sbatch"
        os.chmod(cls.folder, 0o755)
        return [here / "sbatch_adapter.sh"], {"scripts": str(here / "scripts"), "jobs": str(cls.folder)}

    @classmethod
    def end_cluster(cls):
        cls.cluster.stdin.close()
        cls.cluster.wait(SECONDS)
        cls.cluster.stdout.close()

    def adapter(self):
        self.options = {"env": self.env}
        return super().adapter()

    calls, kills = 6, 3

    def runs(self, label):
        return self.began().splitlines().count(label)

    def test_job_returns_what_it_printed(self):
        handle = self.program.start(COUNT, {"label": "abcde"})
        seen = self.program.wait(handle)
        self.assertEqual(seen["state"], {"succeeded": {"content": [{"type": "text", "text": "abcde has 5 letters\n"}]}})
        self.program.call("cancel", {"handle": handle})
        self.assertEqual(self.program.wait(handle), seen, "an ended job is seen the same every time")

    def test_failure_has_its_log(self):
        seen = self.program.wait(self.program.start(COUNT, {"label": "fail-b"}))
        self.assertEqual((state_of(seen), seen["message"]), ("failed", "exit code 3"))
        self.assertIn("no data for fail-b", seen["state"]["failed"]["content"][0]["text"])

    def test_job_is_found_by_its_key(self):
        key = fresh_key()
        self.assertIsNone(self.program.find(key))
        handle = self.program.start(COUNT, {"label": "found"}, key)
        self.assertEqual(self.program.find(key), {"handle": handle})
        self.assert_state(self.program.wait(handle), "succeeded")
        self.assertEqual(self.program.find(key), {"handle": handle})

    def test_job_is_cancelled_at_any_moment(self):
        """Also before its shell has begun, when Slurm may say that it failed."""
        for number in range(4):
            label = f"long-{number}"
            handle = self.program.start(COUNT, {"label": label, "seconds": 300})
            if number % 2:
                until("it runs", lambda label=label: label in self.began())
            for _ in range(2):
                self.program.call("cancel", {"handle": handle})
            self.assert_state(self.program.wait(handle), "cancelled")

    def began(self):
        began = self.folder / "began"
        return began.read_text() if began.exists() else ""

    def test_unknown_jobs_are_answered_in_order(self):
        unknown = f"999999.{fresh_key()}"
        self.program.call("cancel", {"handle": unknown})
        done = self.program.start(COUNT, {"label": "known"})
        self.program.wait(done)
        self.assertEqual(
            [state_of(each) for each in self.program.observe(unknown, done, unknown)], ["gone", "succeeded", "gone"]
        )
        self.assertEqual(self.program.observe(), [])

    def test_refusal_has_its_reason(self):
        with self.assertRaises(CallFailed) as caught:
            self.program.start({"script": "../../none.sh"}, {})
        self.assertEqual(caught.exception.kind, "rejected")
        with self.assertRaises(CallFailed) as caught:
            self.program.call("dance")
        self.assertEqual(caught.exception.error["code"], -32601)

    def test_cluster_away_is_no_state(self):
        handle = self.program.start(COUNT, {"label": "kept"})
        seen = self.program.wait(handle)
        self.order("kill slurmctld")
        with self.assertRaises(CallFailed) as caught:
            self.program.observe(handle)
        self.assertEqual(caught.exception.kind, "unavailable")
        self.order("start slurmctld")
        self.assertEqual(self.program.observe(handle), [seen])

    def order(self, order):
        self.cluster.stdin.write(f"{order}\n")
        self.cluster.stdin.flush()
        self.assertEqual(self.cluster.stdout.readline(), "ok\n")


if __name__ == "__main__":
    unittest.main()
