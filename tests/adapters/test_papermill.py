"""The example adapter for papermill with real notebooks and kernels."""

import unittest

from stage import EXAMPLES, PYTHON, AdapterTest, until
from taskbridge_adapter.testing import SECONDS, CallFailed, fresh_key, spec, state_of

COUNT = {"notebook": "count.ipynb"}


class PapermillTest(AdapterTest, unittest.TestCase):
    plan = {
        "unknown_handle": "tb-aaaaaaaaaaaaaaaaaaaaaaaaaa",
        "succeeding": {"target": COUNT, "arguments": {"label": "suite"}, "text": "counted"},
        "failing": {"target": COUNT, "arguments": {"label": "suite", "to": -1}},
        "long": {"target": COUNT, "arguments": {"label": "suite", "seconds": 300}},
        "refused": {"target": {"notebook": "none.ipynb"}, "arguments": {}, "text": "there is no notebook none.ipynb"},
    }

    @classmethod
    def begin(cls):
        cls.addClassCleanup(cls.end_jobs)
        here = EXAMPLES / "papermill"
        return [PYTHON, "-B", here / "papermill_adapter.py"], {
            "notebooks": str(here / "notebooks"),
            "jobs": str(cls.folder / "jobs"),
        }

    @classmethod
    def end_jobs(cls):
        """Ends what a failed test has left."""
        import sys

        sys.path.append(str(EXAMPLES / "papermill"))
        import run_notebook

        for job in (cls.folder / "jobs").iterdir():
            run_notebook.stop(job)
            until("the process ends", lambda job=job: not run_notebook.is_locked(job))

    calls, kills = 4, 2

    def runs(self, label):
        logs = [log.read_text() for log in self.folder.glob("jobs/*/log")]
        return sum(log.count(f"counting for {label}\n") for log in logs)

    def test_notebook_returns_its_last_output(self):
        handle = self.program.start(COUNT, {"label": "a", "to": 5})
        seen = self.program.wait(handle)
        self.assertEqual(seen["state"]["succeeded"]["structured"], {"label": "a", "counted": 5})
        self.assertEqual(self.program.wait(handle), seen, "an ended job is seen the same every time")
        self.program.call("cancel", {"handle": handle})
        self.assertEqual(self.program.observe(handle), [seen])
        log = self.program.call("log", {"handle": handle, "max_bytes": 10_000, "search": "counting for"})
        self.assertIn("counting for a", log["text"])
        part = {"handle": handle, "name": "out.ipynb", "offset": 0, "max_bytes": 10}
        self.assertGreater(self.program.call("artifact", part)["size"], 1000)
        self.assertIsNone(self.program.call("artifact", part | {"name": "../job.json"}))
        self.program.call("forget", {"handle": handle})
        self.assertEqual(self.program.observe(handle), [{"state": "gone"}])

    def test_failure_has_its_message(self):
        seen = self.program.wait(self.program.start(COUNT, {"label": "b", "to": -1}))
        self.assertEqual((state_of(seen), seen["message"]), ("failed", "ValueError: no data for b"))
        self.assertEqual(seen["state"]["failed"]["artifacts"][0]["name"], "out.ipynb")

    def test_same_key_runs_once(self):
        key = fresh_key()
        self.assertIsNone(self.program.find(key))
        other = self.adapter()
        futures = [each.begin("start", spec(COUNT, {"label": "once"}, key)) for each in (self.program, other) * 3]
        self.assertEqual({future.result(SECONDS)["handle"] for future in futures}, {key})
        self.assert_state(self.program.wait(key), "succeeded")
        self.program.start(COUNT, {"label": "once"}, key, may_exist=True)
        self.assertEqual(self.program.find(key), {"handle": key})
        log = self.program.call("log", {"handle": key, "max_bytes": 10_000, "search": "counting for"})
        self.assertEqual(log["text"].count("counting for"), 1, log)

    def test_notebook_is_cancelled_at_any_moment(self):
        for running in (False, True):
            handle = self.program.start(COUNT, {"label": "long", "seconds": 300})
            if running:
                until(
                    "it is in its second cell",
                    lambda handle=handle: self.program.observe(handle)[0].get("progress", {}).get("done") == 2,
                )
            for _ in range(2):
                self.program.call("cancel", {"handle": handle})
            self.assert_state(self.program.wait(handle), "cancelled")

    def test_notebook_outlives_the_adapter(self):
        handle = self.program.start(COUNT, {"label": "outlives", "seconds": 1})
        self.program.kill()
        self.program = self.adapter()
        self.assert_state(self.program.wait(handle), "succeeded")

    def test_unknown_notebook_is_refused(self):
        for name in ("none.ipynb", "../papermill_adapter.py", "/etc/passwd"):
            with self.assertRaises(CallFailed) as caught:
                self.program.start({"notebook": name}, {})
            self.assertEqual(caught.exception.kind, "rejected")
        unknown = fresh_key()
        self.program.call("cancel", {"handle": unknown})
        self.assertEqual(self.program.observe(unknown), [{"state": "gone"}])


if __name__ == "__main__":
    unittest.main()
