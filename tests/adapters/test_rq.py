"""The example adapter for RQ against RQ itself: a Redis and a worker."""

import unittest

from redis import Redis
from stage import EXAMPLES, PYTHON, AdapterTest, RedisServer, until
from taskbridge_adapter.testing import SECONDS, CallFailed, fresh_key, spec, state_of

COUNT, PAUSE, FAIL, HOLD = ({"function": f"jobs.{name}"} for name in ("count", "pause", "fail", "hold"))


class RqTest(AdapterTest, unittest.TestCase):
    service = (EXAMPLES / "rq", "rq_adapter", "Rq")
    plan = {
        "unknown_handle": "tb-aaaaaaaaaaaaaaaaaaaaaaaaaa",
        "succeeding": {"target": COUNT, "arguments": {"label": "suite"}, "text": "counted"},
        "failing": {"target": FAIL, "arguments": {"label": "suite"}},
        "long": {"target": HOLD, "arguments": {"label": "suite"}},
    }

    @classmethod
    def begin(cls):
        cls.server = RedisServer(cls.processes)
        cls.redis = Redis.from_url(cls.server.url)
        cls.addClassCleanup(cls.redis.close)
        for name in ("one", "two"):
            cls.worker(name)
        return [PYTHON, EXAMPLES / "rq" / "rq_adapter.py"], {"url": cls.server.url}

    @classmethod
    def worker(cls, name):
        command = [PYTHON, "-m", "rq.cli", "worker", "--url", cls.server.url, "--path", EXAMPLES / "rq"]
        return cls.processes.start(f"worker-{name}", *command, again=True)

    def runs(self, label):
        return self.began(f"count {label}")

    def began(self, label):
        return int(self.redis.hget("began", label) or 0)

    def test_job_returns_its_result(self):
        handle = self.program.start(COUNT, {"label": "a", "to": 5})
        seen = self.program.wait(handle)
        self.assertEqual(seen["state"]["succeeded"]["structured"], {"label": "a", "counted": 5})
        self.assertEqual(self.program.wait(handle), seen, "an ended job is seen the same every time")

    def test_failure_has_its_last_line(self):
        seen = self.program.wait(self.program.start(FAIL, {"label": "b"}))
        self.assertEqual((state_of(seen), seen["message"]), ("failed", "ValueError: no data for b"))

    def test_same_key_runs_once(self):
        key = fresh_key()
        self.assertIsNone(self.program.find(key))
        other = self.adapter()
        futures = [each.begin("start", spec(COUNT, {"label": key}, key)) for each in (self.program, other) * 8]
        self.assertEqual({future.result(SECONDS)["handle"] for future in futures}, {key})
        self.assert_state(self.program.wait(key), "succeeded")
        self.assertEqual(self.program.start(COUNT, {"label": key}, key, may_exist=True), key)
        self.assertEqual(self.program.find(key), {"handle": key})
        self.assertEqual(self.began(f"count {key}"), 1)

    def test_running_job_is_cancelled(self):
        for number in range(3):
            handle = self.program.start(HOLD, {"label": f"wait-{number}"})
            if number:
                until("it runs", lambda handle=handle: state_of(self.program.observe(handle)[0]) == "running")
            # At any moment, also while a worker takes it.
            for _ in range(2):
                self.program.call("cancel", {"handle": handle})
            self.assert_state(self.program.wait(handle), "cancelled")

    def test_queued_job_is_cancelled(self):
        target = HOLD | {"queue": "nobody"}
        handle = self.program.start(target, {"label": "never"})
        self.assert_state(self.program.observe(handle)[0], "queued")
        self.program.call("cancel", {"handle": handle})
        self.program.call("cancel", {"handle": handle})
        self.assert_state(self.program.observe(handle)[0], "cancelled")
        self.assertEqual(self.began("hold never"), 0)

    def test_unknown_job_is_gone(self):
        key = fresh_key()
        self.program.call("cancel", {"handle": key})
        done = self.program.start(COUNT, {"label": "known"})
        self.program.wait(done)
        self.assertEqual(
            [state_of(each) for each in self.program.observe(key, done, key)], ["gone", "succeeded", "gone"]
        )

    def test_ended_job_stays_as_it_is(self):
        handle = self.program.start(COUNT, {"label": "stays"})
        seen = self.program.wait(handle)
        self.program.call("cancel", {"handle": handle})
        self.assertEqual(self.program.observe(handle), [seen])

    def test_job_outlives_the_adapter(self):
        handle = self.program.start(PAUSE, {"label": "outlives", "seconds": 1})
        self.program.kill()
        self.program = self.adapter()
        self.assert_state(self.program.wait(handle), "succeeded")

    def test_redis_away_is_no_state(self):
        handle = self.program.start(COUNT, {"label": "kept"})
        seen = self.program.wait(handle)
        self.server.kill()
        for method, params, kind in (
            ("start", spec(COUNT, {"label": "away"}), "unavailable"),
            ("observe_all", {"group": "", "jobs": [{"handle": handle}]}, "unavailable"),
            ("cancel", {"handle": handle}, "unavailable"),
        ):
            with self.assertRaises(CallFailed) as caught:
                self.program.call(method, params)
            self.assertEqual(caught.exception.kind, kind, caught.exception)
        self.server.start()
        self.assertEqual(self.program.wait(handle), seen)


if __name__ == "__main__":
    unittest.main()
