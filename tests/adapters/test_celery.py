"""The example adapter for Celery against Celery itself: a Redis and a worker."""

import os
import unittest

from redis import Redis
from stage import EXAMPLES, PYTHON, AdapterTest, RedisServer, until
from taskbridge_adapter.testing import SECONDS, CallFailed, fresh_key, spec, state_of

COUNT, FAIL, WAIT = ({"task": f"tasks.{name}"} for name in ("count", "fail", "wait"))


class CeleryTest(AdapterTest, unittest.TestCase):
    plan = {
        "unknown_handle": "celery/tb-aaaaaaaaaaaaaaaaaaaaaaaaaa",
        "succeeding": {"target": COUNT, "arguments": {"label": "suite"}, "text": "counted"},
        "failing": {"target": FAIL, "arguments": {"label": "suite"}},
        "long": {"target": WAIT, "arguments": {"label": "suite"}},
    }

    @classmethod
    def begin(cls):
        cls.server = RedisServer(cls.processes)
        cls.redis = Redis.from_url(cls.server.url)
        cls.addClassCleanup(cls.redis.close)
        worker = [
            PYTHON,
            "-m",
            "celery",
            "--app",
            "tasks",
            "worker",
            "--concurrency",
            4,
            "--without-mingle",
            "--without-gossip",
        ]
        cls.processes.start(
            "worker", *worker, again=True, cwd=EXAMPLES / "celery", env=os.environ | {"REDIS": cls.server.url}
        )
        return [PYTHON, EXAMPLES / "celery" / "celery_adapter.py"], {"broker": cls.server.url}

    def runs(self, label):
        return self.began(label)

    def began(self, label):
        return int(self.redis.hget("began", label) or 0)

    def test_task_returns_its_result(self):
        handle = self.program.start(COUNT, {"label": "a", "to": 5})
        seen = self.program.wait(handle)
        self.assertEqual(seen["state"]["succeeded"]["structured"], {"label": "a", "counted": 5})
        self.assertEqual(self.program.wait(handle), seen, "an ended job is seen the same every time")

    def test_failure_has_its_message(self):
        seen = self.program.wait(self.program.start(FAIL, {"label": "b"}))
        self.assertEqual((state_of(seen), seen["message"]), ("failed", "ValueError: no data for b"))

    def test_same_key_runs_once(self):
        """Celery itself would run a task for each message; the fence lets one through."""
        key = fresh_key()
        self.assertIsNone(self.program.find(key))
        other = self.adapter()
        futures = [each.begin("start", spec(COUNT, {"label": key}, key)) for each in (self.program, other) * 8]
        self.assertEqual({future.result(SECONDS)["handle"] for future in futures}, {f"celery/{key}"})
        self.assert_state(self.program.wait(f"celery/{key}"), "succeeded")
        self.program.start(COUNT, {"label": key}, key, may_exist=True)
        self.assertEqual(self.program.find(key), {"handle": f"celery/{key}"})
        # A task that is sent after the others ends after them: nothing is left in the queue.
        self.assert_state(self.program.wait(self.program.start(COUNT, {"label": "after"})), "succeeded")
        self.assertEqual(self.began(key), 1)

    def test_running_task_is_cancelled(self):
        handle = self.program.start(WAIT, {"label": "runs"})
        until("it runs", lambda: self.began("runs"))
        for _ in range(2):
            self.program.call("cancel", {"handle": handle})
        self.assert_state(self.program.wait(handle), "cancelled")

    def test_task_is_cancelled_at_any_moment(self):
        for number in range(3):
            handle = self.program.start(WAIT, {"label": f"moment-{number}"})
            self.program.call("cancel", {"handle": handle})
            self.assert_state(self.program.wait(handle), "cancelled")

    def test_queued_task_is_cancelled(self):
        key, target = fresh_key(), WAIT | {"queue": "nobody"}
        handle = self.program.start(target, {"label": "never"}, key)
        self.assert_state(self.program.observe(handle)[0], "queued")
        for _ in range(2):
            self.program.call("cancel", {"handle": handle})
        self.assert_state(self.program.observe(handle)[0], "cancelled")
        self.program.start(target, {"label": "never"}, key, may_exist=True)
        self.assertEqual(self.redis.llen("nobody"), 0, "it does not start again")

    def test_unknown_task_is_gone(self):
        unknown = f"celery/{fresh_key()}"
        self.program.call("cancel", {"handle": unknown})
        done = self.program.start(COUNT, {"label": "known"})
        self.program.wait(done)
        self.assertEqual(
            [state_of(each) for each in self.program.observe(unknown, done, unknown)], ["gone", "succeeded", "gone"]
        )

    def test_ended_task_stays_as_it_is(self):
        handle = self.program.start(FAIL, {"label": "stays"})
        seen = self.program.wait(handle)
        self.program.call("cancel", {"handle": handle})
        self.assertEqual(self.program.observe(handle), [seen])

    def test_redis_away_is_no_state(self):
        handle = self.program.start(COUNT, {"label": "kept"})
        seen = self.program.wait(handle)
        self.server.kill()
        with self.assertRaises(CallFailed) as caught:
            self.program.observe(handle)
        self.assertEqual(caught.exception.kind, "unavailable")
        with self.assertRaises(CallFailed) as caught:
            self.program.start(COUNT, {"label": "kept"})
        self.assertEqual(caught.exception.kind, "unavailable")
        self.server.start()
        self.assertEqual(self.program.wait(handle), seen)


if __name__ == "__main__":
    unittest.main()
