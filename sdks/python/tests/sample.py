"""An adapter over an engine in memory, for the tests: its jobs do what their arguments say."""

import subprocess
import threading

from taskbridge_adapter import (
    GONE,
    TOO_LATE,
    Config,
    Finding,
    Limited,
    Note,
    Question,
    Rejected,
    Tool,
    Uncertain,
    cancelled,
    failed,
    queued,
    running,
    serve,
    succeeded,
)

JOBS: dict[str, dict] = {}


class Sample:
    once = "key"
    name, version, secrets = "sample", "2.1", ("token",)
    config_schema = {"type": "object", "properties": {"size": {"type": "integer"}}}
    target_schema = {"type": "object"}
    key_lasts, identity, list_lag = 60, "sample here", 1.5
    has_changed = has_notes = True

    def __init__(self, config, host):
        self.host, self.size, self.token = host, config["size"], config.get("token")
        self.released = threading.Event()
        if self.size > 9:
            raise Config("config.size is larger than 9; choose a smaller one")
        print("hello from print")
        subprocess.run(["echo", "hello from a child"])

    def start(self, job):
        match job.arguments.get("start"):
            case "reject":
                raise Rejected("no room\nfor this\x1b[1m job")
            case "limit":
                raise Limited("slow down", after=1.5)
            case "lost":
                raise Uncertain("ask the operator", final=True)
            case "break":
                raise OSError("the reply was lost")
            case "leave":
                raise SystemExit(3)
        JOBS.setdefault(job.key, {"does": job.arguments, "from": job.target["place"]})
        return job.key

    def find(self, job):
        return job.key if job.key in JOBS else None

    def observe(self, handle):
        if handle == "slow":
            # Until another call ends it.
            self.released.wait(120)
        if handle not in JOBS:
            return GONE
        does = JOBS[handle]["does"]
        match does.get("state"):
            case "succeeded":
                notes = [Note(1, "it began"), Note(2, {"rows": 3}, "warning")]
                return succeeded(does["result"]).with_notes(notes).with_link("https://engine.example/1")
            case "set":
                return succeeded({1, 2})
            case "deep":
                value = None
                for _ in range(500):
                    value = [value]
                return succeeded(value)
            case "many":
                return succeeded([0] * does["values"])
            case "nan":
                return succeeded(float("nan"))
            case "surrogate":
                return succeeded("\ud800 and so on")
            case "large":
                return succeeded("x" * 900_000)
            case "too large":
                return succeeded("x" * 2_000_000)
            case "failed":
                return failed("line one\nline two")
            case "cancelled":
                return cancelled()
            case "broken":
                raise RuntimeError("cannot look")
            case "wrong":
                return {"state": "running"}
            case "asks":
                return running(
                    "asks", 1, 4, questions=[Question("q", "Go on?", schema={"type": "object", "properties": {}})]
                )
        return queued()

    def cancel(self, handle, by=None):
        if handle == "slow":
            return self.released.set()
        JOBS[handle] = {"does": {"state": "cancelled"}}
        self.host.changed(handle)
        self.host.note(f"{by.name if by else 'nobody'} cancelled", "warning")

    def answer(self, handle, question, answer):
        return TOO_LATE if question != "q" else answer.accepted

    def log(self, handle):
        return "one\ntwo\nthree\n"

    def artifact(self, handle, name):
        return bytes(range(10)) if name == "a.bin" else None

    def discover(self):
        return [Tool("count", {"place": "here"}, description="Counts.")]

    def check_up(self, tools, parameters):
        return [
            Finding(tool, "ok", f"target {dict(target)}, parameters {parameters[tool]}")
            for tool, target in tools.items()
        ]


if __name__ == "__main__":
    serve(Sample)
