"""Processes of a pygeoapi server, for tests of the http adapter (serve.py). Each start leaves a line in STARTS/KEY: the
id of the job, the tool and the key, which is the label of a call in the e2e run."""

import os
import time
from pathlib import Path

from pygeoapi.process.base import BaseProcessor, ProcessorExecuteError

STARTS = Path(os.environ["STARTS"])
BOTH = ["sync-execute", "async-execute"]


def text(title, **more):
    return {"title": title, "schema": {"type": "string"}, "minOccurs": 0, "maxOccurs": 1} | more


class Process(BaseProcessor):
    """What all have in common: the input `key`, and an output."""

    title, modes, inputs = "", BOTH, {}

    def __init__(self, definition):
        name = type(self).__name__.lower()
        super().__init__(definition, {
            "version": "1.0.0", "id": name, "title": self.title, "description": self.title, "keywords": [], "links": [],
            "jobControlOptions": self.modes, "inputs": self.inputs | {"key": text("Key")},
            "outputs": {"said": {"title": "Said", "schema": {"type": "object"}}}, "example": {"inputs": {}},
        })

    def set_job_id(self, job_id):
        self.job_id = job_id

    def execute(self, data, outputs=None):
        if key := data.get("key") or data.get("label"):
            with (STARTS / key).open("a") as starts:
                starts.write(f"{self.job_id} {data.get('kind')} {key}\n")
        return self.run(data, STARTS / f"{key}.end")


class Greet(Process):
    title = "Greets someone."
    inputs = {"who": text("Who", description="Whom to greet.", minOccurs=1,
                          schema={"type": "string", "maxLength": 40}),
              "times": text("Times", schema={"type": "integer", "minimum": 1}), "tags": text("Tags", maxOccurs=3)}

    def run(self, data, end):
        said = ", ".join([f"hello {data['who']}", *filter(None, [" and ".join(data.get("tags", []))])])
        return "application/json", {"id": "said", "value": said}


class Refuse(Process):
    title = "Fails."

    def run(self, data, end):
        raise ProcessorExecuteError("out of luck\nfor today")


class Wait(Process):
    """Goes on until the test says so, or is over."""

    title = "Waits."

    def run(self, data, end):
        go, deadline = end.with_suffix(".go"), time.monotonic() + 1200
        while not go.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        end.touch()
        return "application/json", {"id": "said", "value": "waited"}


class Repeat(Process):
    title = "Returns its inputs."

    def run(self, data, end):
        return "application/json", data


class Later(Repeat):
    title = "Returns its inputs after two seconds."

    def run(self, data, end):
        time.sleep(2)
        return super().run(data, end)


class Plain(Process):
    title = "Writes plain text."

    def run(self, data, end):
        return "text/plain", b"plain words"


class Sync(Process):
    title = "Can only be executed while the client waits."
    modes = ["sync-execute"]

    def run(self, data, end):
        return "application/json", {"id": "said", "value": "in time"}
