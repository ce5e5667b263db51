"""A taskbridge adapter for papermill: a tool's call runs a notebook on this machine, with the call's arguments as its
parameters.

There is no engine, so this program keeps the jobs itself: a folder for each, named by the key, and a process that runs
the notebook and outlives the adapter. That process holds a lock on the folder while it lives: a folder without an end
and without a lock is a job that was killed.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from taskbridge_adapter import GONE, Artifact, Config, Rejected, cancelled, failed, queued, running, serve, succeeded

import run_notebook as folder

# After this time in seconds, another process is started for a job that has not begun.
SLOW = 60


class Papermill:
    name, version = "papermill", "1.0.0"
    once = "key"
    config_schema = {
        "type": "object",
        "required": ["notebooks"],
        "additionalProperties": False,
        "properties": {
            "notebooks": {"type": "string", "description": "Folder of the notebooks, from the folder of the config"},
            "jobs": {"type": "string", "description": "Folder of the jobs; the backend's own folder if left out"},
            "kernel": {"type": "string", "description": "Name of the kernel, if not the notebook's"},
        },
    }
    target_schema = {
        "type": "object",
        "required": ["notebook"],
        "additionalProperties": False,
        "properties": {"notebook": {"type": "string", "description": "File in the folder of notebooks"}},
    }

    def __init__(self, config, host):
        self.notebooks = Path(host.config_dir, config["notebooks"]).resolve()
        if not self.notebooks.is_dir():
            raise Config(f"config.notebooks is {self.notebooks}, which is no folder; create it")
        self.jobs = Path(host.config_dir, config.get("jobs") or host.state_dir).resolve()
        self.jobs.mkdir(parents=True, exist_ok=True)
        self.kernel = config.get("kernel")
        self.identity = f"papermill {self.jobs}"

    def start(self, job):
        notebook = (self.notebooks / job.target["notebook"]).resolve()
        if self.notebooks not in notebook.parents or not notebook.is_file():
            raise Rejected(f"there is no notebook {job.target['notebook']} in {self.notebooks}")
        at = self.jobs / job.key
        at.mkdir(exist_ok=True)
        folder.write(at / "job.json", {"notebook": str(notebook), "parameters": job.arguments, "kernel": self.kernel})
        self.launch(at)
        return job.key

    def launch(self, at):
        """Starts a process for a job. Of several, the first that locks the folder runs the notebook, and the others do
        nothing."""
        with open(at / "log", "ab") as log:
            subprocess.Popen(
                [sys.executable, folder.__file__, at],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def find(self, job):
        # Without these files, a start was cut off, or its process has not begun: another start is harmless.
        at = self.jobs / job.key
        return job.key if any((at / name).exists() for name in ("pid.json", "end.json", "cancel")) else None

    def observe(self, handle):
        at = self.at(handle)
        if not (at / "job.json").exists():
            return GONE
        # In this order: the process takes the lock, writes its id, writes the end, and releases the lock.
        begun = (at / "pid.json").exists()
        alive = folder.is_locked(at)
        end = folder.read(at / "end.json")
        if end is None and alive:
            progress = folder.read(at / "progress.json") or {}
            return running(done=progress.get("done"), total=progress.get("total")) if progress else queued()
        notebook = [Artifact("out.ipynb", "application/x-ipynb+json")] if (at / "out.ipynb").exists() else []
        match end:
            case {"succeeded": result}:
                return succeeded(result, notebook)
            case {"failed": message}:
                return failed(message, artifacts=notebook)
        if (at / "cancel").exists():
            return cancelled()
        if not begun:
            if time.time() - (at / "job.json").stat().st_mtime > SLOW:
                # It was killed before it began, such as by a reboot.
                os.utime(at / "job.json")
                self.launch(at)
            return queued("its process has not begun")
        return failed("the process that ran the notebook was killed", artifacts=notebook)

    def cancel(self, handle):
        at = self.at(handle)
        if (at / "job.json").exists() and not (at / "end.json").exists():
            # A process that begins later sees this file, and ends.
            (at / "cancel").touch()
            folder.stop(at)

    def log(self, handle):
        at = self.at(handle) / "log"
        return at.read_text(errors="replace") if at.exists() else ""

    def artifact(self, handle, name, offset, max_bytes):
        at = self.at(handle) / "out.ipynb"
        if name != "out.ipynb" or not at.exists():
            return None
        with open(at, "rb") as file:
            file.seek(offset)
            return file.read(max_bytes), at.stat().st_size

    def forget(self, handle):
        at = self.at(handle)
        if at.exists() and not folder.is_locked(at):
            for file in at.iterdir():
                file.unlink()
            at.rmdir()

    def at(self, handle):
        # A handle is a key that this adapter gave out.
        return self.jobs / os.path.basename(handle)


if __name__ == "__main__":
    serve(Papermill)
