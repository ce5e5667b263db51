"""Tasks that the workers of the example run: `celery --app tasks worker`. REDIS is the address of broker and results."""

import os
import time

from celery import Celery

app = Celery("tasks", broker=os.environ["REDIS"], backend=os.environ["REDIS"])
app.conf.update(task_track_started=True, result_expires=7 * 24 * 3600, broker_connection_retry_on_startup=True)


@app.task(bind=True)
def count(self, label, to=3):
    """Says how far it is, and returns a number."""
    note(label)
    for done in range(to):
        self.update_state(state="PROGRESS", meta={"done": done, "total": to, "message": f"row {done}"})
    return {"label": label, "counted": to}


@app.task
def fail(label):
    """Fails with a message."""
    note(label)
    raise ValueError(f"no data for {label}")


@app.task
def wait(label, seconds=300):
    """Runs for a while."""
    note(label)
    time.sleep(seconds)
    return label


def note(label):
    """Counts how often a task with this label began: what a test reads."""
    app.backend.client.hincrby("began", label, 1)
