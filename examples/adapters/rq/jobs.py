"""Functions that the workers of the example run: `rq worker` imports this module."""

import time

from rq import get_current_job


def count(label, to=3):
    """Says how far it is, and returns a number."""
    job = begin("count", label)
    for done in range(to):
        job.meta.update(done=done, total=to, message=f"row {done}")
        job.save_meta()
    return {"label": label, "counted": to}


def pause(label, seconds=1):
    """Returns a number after a while."""
    begin("pause", label)
    time.sleep(seconds)
    return {"label": label, "counted": 3}


def fail(label):
    """Fails with a message."""
    begin("fail", label)
    raise ValueError(f"no data for {label}")


def hold(label, seconds=300):
    """Waits to be cancelled."""
    job = begin("hold", label)
    job.meta.update(message="row 0")
    job.save_meta()
    time.sleep(seconds)
    return label


def begin(name, label):
    """Counts how often a function began with a label: what a test reads. Returns the job."""
    job = get_current_job()
    job.connection.hincrby("began", f"{name} {label}", 1)
    return job
