"""taskbridge adapter {{name}}. Its engine is a folder: a job is a file that says when it ends. Replace that by your engine."""

import json
import os
import time
import uuid
from pathlib import Path

from taskbridge_adapter import GONE, cancelled, failed, running, serve, succeeded


class Adapter:
    name, version = "{{name}}", "0.1.0"
    # A second start under a key returns the first job. If your engine has no such key, write "none".
    once = "key"
    config_schema = {
        "type": "object",
        "required": ["folder"],
        "additionalProperties": False,
        "properties": {"folder": {"type": "string", "description": "Folder of the jobs"}},
    }
    target_schema = {
        "type": "object",
        "required": ["does"],
        "additionalProperties": False,
        "properties": {"does": {"enum": ["succeed", "fail"]}},
    }

    def __init__(self, config, host):
        self.folder = Path(host.config_dir, config["folder"]).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.identity = f"{self.name} {self.folder}"

    def start(self, job):
        """Starts the job, or returns the job that an earlier start under this key started."""
        spec = {
            "does": job.target["does"],
            "text": job.arguments.get("text", ""),
            "ends": time.time() + job.arguments.get("seconds", 0),
        }
        new = self.folder / f".{uuid.uuid4()}"
        new.write_text(json.dumps(spec))
        try:
            os.link(new, self.folder / job.key)
        except FileExistsError:
            pass
        finally:
            new.unlink()
        return job.key

    def find(self, job):
        """Returns the handle of the job with this key, or `None`. It starts nothing."""
        return job.key if (self.folder / job.key).exists() else None

    def observe(self, handle):
        """Returns the state of a job. An ended job gives the same every time."""
        at = self.folder / os.path.basename(handle)
        if not at.exists():
            return GONE
        job, cancel = json.loads(at.read_text()), at.with_suffix(".cancel")
        if cancel.exists() and cancel.stat().st_mtime < job["ends"]:
            return cancelled()
        if time.time() < job["ends"]:
            return running("waiting")
        return succeeded(job["text"]) if job["does"] == "succeed" else failed(f"no data for {job['text']}")

    def cancel(self, handle):
        """Asks the engine to stop a job. For a job that has ended or is unknown, it does nothing."""
        if self.observe(handle).state == "running":
            (self.folder / os.path.basename(handle)).with_suffix(".cancel").touch()


if __name__ == "__main__":
    serve(Adapter)
