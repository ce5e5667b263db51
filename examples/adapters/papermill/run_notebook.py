"""Runs the notebook of one job: `run_notebook.py FOLDER`. The folder has the job, its progress, its end and its lock.

The functions are shared with the adapter. Of several processes for one folder, one runs the notebook.
"""

import fcntl
import json
import os
import signal
import sys
import uuid
from pathlib import Path


def write(path, value):
    """Writes a file that is never seen half."""
    new = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    new.write_text(json.dumps(value))
    new.replace(path)


def read(path):
    """Returns what a file says, or `None` if there is no file."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None


def is_locked(at):
    """Returns whether a process runs this job."""
    try:
        with open(at / "lock", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def stop(at):
    """Asks the process of this job to end, if it runs."""
    pid = read(at / "pid.json")
    if pid and is_locked(at):
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            pass


def main(at):
    # Not inherited, so that the kernel does not hold it.
    lock = open(at / "lock", "ab")
    # It waits: the adapter takes the lock for a moment to see whether it is free.
    fcntl.flock(lock, fcntl.LOCK_EX)
    if (at / "end.json").exists() or (at / "pid.json").exists():
        # It has ended, or was killed: a notebook is not run twice.
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("cancelled"))
    write(at / "pid.json", os.getpid())
    if (at / "cancel").exists():
        return
    job = read(at / "job.json")
    write(at / "progress.json", {"done": 0})
    write(at / "end.json", run(at, job))


def run(at, job):
    """Runs the notebook, and returns how it ended."""
    import logging

    import papermill
    from papermill.engines import NBClientEngine, papermill_engines

    class Engine(NBClientEngine):
        """Papermill's own engine, which says which cell it runs."""

        @classmethod
        def execute_managed_notebook(cls, manager, kernel_name, **options):
            begin = manager.cell_start

            def cell_start(cell, cell_index=None, **named):
                write(at / "progress.json", {"done": cell_index, "total": len(manager.nb.cells)})
                return begin(cell, cell_index, **named)

            manager.cell_start = cell_start
            return super().execute_managed_notebook(manager, kernel_name, **options)

    papermill_engines.register("taskbridge", Engine)
    # What cells print goes to the log of the job.
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        notebook = papermill.execute_notebook(
            job["notebook"],
            at / "out.ipynb",
            job["parameters"],
            kernel_name=job["kernel"],
            engine_name="taskbridge",
            progress_bar=False,
            cwd=str(Path(job["notebook"]).parent),
            log_output=True,
        )
    except papermill.PapermillExecutionError as error:
        return {"failed": f"{error.ename}: {error.evalue}"}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}
    return {"succeeded": last_output(notebook)}


def last_output(notebook):
    """Returns what the last cell shows: data where it is JSON, otherwise text."""
    for cell in reversed(notebook.cells):
        for output in reversed(cell.get("outputs", [])):
            data = output.get("data", {})
            if "application/json" in data:
                return data["application/json"]
            if text := data.get("text/plain") or output.get("text"):
                return text
    return None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
