"""Functions that the workers of the example run: `rq worker` imports this module."""

import time

from redis import Redis
from rq import get_current_job


def count(label, to=3):
    """Says how far it is, and returns a number."""
    job = get_current_job()
    note(job.connection, label)
    for done in range(to):
        job.meta.update(done=done, total=to, message=f"row {done}")
        job.save_meta()
    return {"label": label, "counted": to}


def fail(label):
    """Fails with a message."""
    note(get_current_job().connection, label)
    raise ValueError(f"no data for {label}")


def wait(label, seconds=300):
    """Runs for a while."""
    note(get_current_job().connection, label)
    time.sleep(seconds)
    return label


def note(redis: Redis, label):
    """Counts how often a job with this label began: what a test reads."""
    redis.hincrby("began", label, 1)
