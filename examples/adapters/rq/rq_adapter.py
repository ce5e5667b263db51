"""A taskbridge adapter for RQ 3: a tool's call becomes a job in an RQ queue.

RQ refuses a second job under an id (`unique=True`), so the key of a task is the id of its job. The workers are yours:
`rq worker`. Run them under a supervisor that starts them again.
"""

import time
from contextlib import suppress
from datetime import datetime, UTC

from redis import Redis, WatchError
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry
from rq import Queue
from rq.command import send_stop_job_command
from rq.exceptions import DuplicateJobError, InvalidJobOperation
from rq.job import Job
from taskbridge_adapter import GONE, Unavailable, cancelled, failed, queued, running, serve, succeeded

WEEK = 7 * 24 * 3600
ENDED = ("finished", "failed", "stopped", "canceled")
# RQ 3.0 stops a job by killing the process that its worker has forked for it. A stop that comes before the worker
# knows that process kills the worker, so a stop waits until the job has run for a second.
FORKED = 1.0
# After so many seconds a worker is told again.
AGAIN = 10


class Rq:
    name, version = "rq", "1.0.0"
    once = "key"
    config_schema = {
        "type": "object",
        "required": ["url"],
        "additionalProperties": False,
        "properties": {
            "url": {"type": "string", "description": "Address of Redis, such as redis://redis.internal/0"},
            "queue": {"type": "string", "default": "default"},
        },
    }
    target_schema = {
        "type": "object",
        "required": ["function"],
        "additionalProperties": False,
        "properties": {
            "function": {"type": "string", "description": "Python path of the function, as the workers import it"},
            "queue": {"type": "string"},
            "timeout": {"type": "integer", "description": "Longest run in seconds", "default": 3600},
        },
    }

    def __init__(self, config):
        # taskbridge makes every call again that failed, so that Redis is asked once.
        self.redis = Redis.from_url(
            config["url"], socket_timeout=5, socket_connect_timeout=5, retry=Retry(NoBackoff(), 0)
        )
        self.queue = config.get("queue", "default")
        place = self.redis.connection_pool.connection_kwargs
        self.identity = f"redis {place.get('host', place.get('path'))}:{place.get('port', 0)}/{place.get('db', 0)}"
        self.redis.ping()

    def start(self, job):
        queue = Queue(job.target.get("queue", self.queue), connection=self.redis)
        try:
            self.redis.ping()
        except RedisError as error:
            # Nothing was sent. An error of what follows leaves that open, and the SDK says so.
            raise Unavailable(f"Redis is away: {error}") from error
        try:
            queue.enqueue(
                job.target["function"],
                kwargs=job.arguments,
                job_id=job.key,
                unique=True,
                job_timeout=job.target.get("timeout", 3600),
                result_ttl=WEEK,
                failure_ttl=WEEK,
            )
        except DuplicateJobError:
            pass  # An earlier start under this key: that job is ours.
        return job.key

    def find(self, job):
        return job.key if Job.exists(job.key, self.redis) else None

    def observe_all(self, handles):
        return [self.look(job) for job in Job.fetch_many(handles, self.redis)]

    def look(self, job):
        if job is None:
            return GONE
        meta = job.get_meta(refresh=False)
        match job.get_status(refresh=False).value:
            case "finished":
                return succeeded(job.return_value())
            case "failed" if self.redis.exists(asked_to_stop(job.id)):
                return cancelled()
            case "failed":
                result = job.latest_result()
                text = (result and result.exc_string or "").strip()
                return failed(text.splitlines()[-1] if text else "the job failed", text or None)
            case "stopped" | "canceled":
                return cancelled()
            case "started":
                if self.redis.exists(asked_to_stop(job.id)):
                    with suppress(InvalidJobOperation):
                        self.stop(job.id)
                return running(meta.get("message"), meta.get("done"), meta.get("total"))
        return queued()

    def cancel(self, handle):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            job = next(iter(Job.fetch_many([handle], self.redis)))
            if job is None or job.get_status(refresh=False).value in ENDED or self.unqueued(job):
                return
            if job.is_started and job.started_at and job.worker_name:
                runs = (datetime.now(UTC) - job.started_at).total_seconds()
                if runs >= FORKED:
                    # A worker that is killed with its job says that the job failed: here is why.
                    self.redis.set(asked_to_stop(handle), 1, ex=WEEK)
                    try:
                        return self.stop(handle)
                    except InvalidJobOperation:
                        continue  # It has just ended.
            time.sleep(0.05)
        raise Unavailable("a worker took the job and has not begun it: is the worker alive?")

    def stop(self, handle):
        """Tells the worker to stop the job, unless it was told just now: a second command that finds the job's process
        gone kills the worker. RQ keeps no commands, so a worker that has missed one is told again later."""
        if self.redis.set(f"{asked_to_stop(handle)}:told", 1, nx=True, ex=AGAIN):
            send_stop_job_command(self.redis, handle)

    def unqueued(self, job):
        """Takes the job out of its queue. Returns false if a worker took it first."""
        queue = Queue(job.origin, connection=self.redis)
        with self.redis.pipeline() as pipe:
            try:
                pipe.watch(queue.key, job.key)
                if pipe.lpos(queue.key, job.id) is None:
                    return False
                pipe.multi()
                job.cancel(pipeline=pipe)
                pipe.execute()
                return True
            except (WatchError, InvalidJobOperation):
                return False


def asked_to_stop(handle):
    return f"taskbridge:rq:stop:{handle}"


if __name__ == "__main__":
    serve(Rq)
