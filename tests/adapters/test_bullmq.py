"""The example adapter for BullMQ against BullMQ itself: a Redis and a worker."""

import os
import unittest
from pathlib import Path

from redis import Redis
from stage import AdapterTest, RedisServer, until
from taskbridge_adapter.testing import SECONDS, fresh_key, spec, state_of

DIST = Path(os.environ.get("TASKBRIDGE_TEST_NODE", "."), "bullmq", "dist")
COUNT, FAIL, WAIT = ({"job": name} for name in ("count", "fail", "wait"))


@unittest.skipUnless((DIST / "adapter.js").exists(), "tests/adapters/run builds it")
class BullmqTest(AdapterTest, unittest.TestCase):
    plan = {
        "unknown_handle": "default/tb-aaaaaaaaaaaaaaaaaaaaaaaaaa",
        "succeeding": {"target": COUNT, "arguments": {"label": "suite"}, "text": "counted"},
        "failing": {"target": FAIL, "arguments": {"label": "suite"}},
        "long": {"target": WAIT, "arguments": {"label": "suite"}},
        "log": {
            "target": {"job": "talk"},
            "arguments": {"label": "suite"},
            "lines": ["first of three", "second of three", "third of three"],
        },
    }

    @classmethod
    def begin(cls):
        cls.server = RedisServer(cls.processes)
        cls.redis = Redis.from_url(cls.server.url)
        cls.addClassCleanup(cls.redis.close)
        cls.processes.start("worker", "node", DIST / "worker.js", cls.server.url, again=True)
        return ["node", DIST / "adapter.js"], {"url": cls.server.url}

    def runs(self, label):
        return self.began(label)

    def began(self, label):
        return int(self.redis.hget("began", label) or 0)

    def test_job_returns_its_result(self):
        handle = self.program.start(COUNT, {"label": "a", "to": 5})
        seen = self.program.wait(handle)
        self.assertEqual(seen["state"]["succeeded"]["structured"], {"label": "a", "counted": 5})
        self.assertEqual(self.program.wait(handle), seen, "an ended job is seen the same every time")
        self.assertEqual(
            self.program.call("log", {"handle": handle, "max_bytes": 100}), {"text": "began a\n", "cut": False}
        )

    def test_failure_has_its_message(self):
        seen = self.program.wait(self.program.start(FAIL, {"label": "b"}))
        self.assertEqual((state_of(seen), seen["message"]), ("failed", "no data for b"))

    def test_same_key_runs_once(self):
        key = fresh_key()
        self.assertIsNone(self.program.find(key))
        other = self.adapter()
        futures = [each.begin("start", spec(COUNT, {"label": key}, key)) for each in (self.program, other) * 8]
        self.assertEqual({future.result(SECONDS)["handle"] for future in futures}, {f"default/{key}"})
        self.assert_state(self.program.wait(f"default/{key}"), "succeeded")
        self.program.start(COUNT, {"label": key}, key, may_exist=True)
        self.assertEqual(self.program.find(key), {"handle": f"default/{key}"})
        self.assertEqual(self.began(key), 1)

    def test_running_job_is_cancelled(self):
        for number in range(3):
            handle = self.program.start(WAIT, {"label": f"wait-{number}"})
            if number:
                until("it runs", lambda handle=handle: state_of(self.program.observe(handle)[0]) == "running")
            # At any moment, also while a worker takes it.
            for _ in range(2):
                self.program.call("cancel", {"handle": handle})
            self.assert_state(self.program.wait(handle), "cancelled")

    def test_queued_job_is_cancelled(self):
        key = fresh_key()
        handle = self.program.start(WAIT | {"queue": "nobody"}, {"label": "never"}, key)
        self.assert_state(self.program.observe(handle)[0], "queued")
        for _ in range(2):
            self.program.call("cancel", {"handle": handle})
        self.assert_state(self.program.observe(handle)[0], "cancelled")
        self.program.start(WAIT | {"queue": "nobody"}, {"label": "never"}, key, may_exist=True)
        self.assertEqual(self.redis.llen("bull:nobody:wait"), 0, "it does not start again")
        self.assert_state(self.program.observe(handle)[0], "cancelled")

    def test_unknown_job_is_gone(self):
        unknown = f"default/{fresh_key()}"
        self.program.call("cancel", {"handle": unknown})
        done = self.program.start(COUNT, {"label": "known"})
        self.program.wait(done)
        self.assertEqual(
            [state_of(each) for each in self.program.observe(unknown, done, unknown)], ["gone", "succeeded", "gone"]
        )

    def test_ended_job_stays_as_it_is(self):
        handle = self.program.start(FAIL, {"label": "stays"})
        seen = self.program.wait(handle)
        self.program.call("cancel", {"handle": handle})
        self.assertEqual(self.program.observe(handle), [seen])

    def test_job_outlives_the_adapter(self):
        handle = self.program.start(WAIT, {"label": "outlives", "seconds": 1})
        self.program.kill()
        self.program = self.adapter()
        self.assert_state(self.program.wait(handle), "succeeded")

    def test_redis_away_is_no_state(self):
        handle = self.program.start(COUNT, {"label": "kept"})
        seen = self.program.wait(handle)
        self.server.kill()
        self.assertEqual(self.program.observe(handle)[0]["error"]["kind"], "unavailable")
        self.server.start()
        until("it is back", lambda: "state" in self.program.observe(handle)[0])
        self.assertEqual(self.program.observe(handle), [seen])


if __name__ == "__main__":
    unittest.main()
