"""A taskbridge adapter for Celery 5 over Redis: a tool's call becomes a Celery task.

A task id of Celery is no key: two messages with one id run twice, and of an unknown id Celery says `PENDING`. So this
adapter sends a task through a fence: one script in Redis puts the message into its queue unless the id was sent before.

The workers are yours. They need `task_track_started = True` and a result backend in Redis.
"""

from celery import Celery
from kombu.transport import redis as transport
from redis.exceptions import RedisError
from taskbridge_adapter import GONE, Unavailable, cancelled, failed, queued, running, serve, succeeded

# The fence and Celery's results are kept for as long. After it, the server only searches.
WEEK = 7 * 24 * 3600
CANCELLED = b"cancelled"
# Puts a message into its queue unless the fence of its task is there. The fence holds the message, to take it out again.
SEND = """
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2]) then redis.call('lpush', KEYS[2], ARGV[1]) end
"""
# Takes a message out of its queue, and leaves a note in the fence. Returns 0 if a worker took the message first.
TAKE = """
local message = redis.call('get', KEYS[1])
if not message or redis.call('lrem', KEYS[2], 1, message) == 0 then return 0 end
redis.call('set', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
"""


def fence(task_id):
    return f"taskbridge:celery:{task_id}"


class Channel(transport.Channel):
    """Publishes a message of a task once."""

    def _put(self, queue, message, **kwargs):
        key = self._q_for_pri(queue, self._get_message_priority(message, reverse=False))
        task_id = message["headers"]["id"]
        with self.conn_or_acquire() as client:
            client.eval(SEND, 2, fence(task_id), key, transport.dumps(message), WEEK)


class Transport(transport.Transport):
    Channel = Channel


class CeleryAdapter:
    name, version = "celery", "1.0.0"
    once, key_lasts = "key", WEEK
    # A handle is QUEUE/KEY.
    config_schema = {
        "type": "object",
        "required": ["broker"],
        "additionalProperties": False,
        "properties": {
            "broker": {"type": "string", "description": "Address of Redis, such as redis://redis.internal/0"},
            "backend": {"type": "string", "description": "Address of the results; the broker's if left out"},
            "queue": {"type": "string", "default": "celery"},
        },
    }
    target_schema = {
        "type": "object",
        "required": ["task"],
        "additionalProperties": False,
        "properties": {
            "task": {"type": "string", "description": "Name of the task, such as reports.build"},
            "queue": {"type": "string"},
        },
    }

    def __init__(self, config):
        self.queue = config.get("queue", "celery")
        timeouts = {"socket_timeout": 5, "socket_connect_timeout": 5}
        self.app = Celery("taskbridge", broker=config["broker"], backend=config.get("backend", config["broker"]))
        self.app.conf.update(
            broker_transport=Transport,
            broker_transport_options=timeouts,
            broker_connection_retry=False,
            task_publish_retry=False,
            result_backend_transport_options={"retry_policy": {"max_retries": 0}},
            redis_socket_timeout=5,
            redis_socket_connect_timeout=5,
        )
        # The client of the results; the fence is beside the queues.
        self.results = self.app.backend.client
        with self.app.connection_for_write() as connection:
            self.redis = connection.default_channel._create_client()
            place = connection.info()
        self.identity = f"celery {place['hostname']}:{place['port']}/{place['virtual_host'].strip('/')}"
        self.redis.ping()

    def start(self, job):
        queue = job.target.get("queue", self.queue)
        try:
            self.redis.ping()
        except RedisError as error:
            raise Unavailable(f"Redis is away: {error}") from error
        self.app.send_task(
            job.target["task"], kwargs=job.arguments, task_id=job.key, queue=queue, retry=False, ignore_result=False
        )
        return f"{queue}/{job.key}"

    def find(self, job):
        return f"{job.target.get('queue', self.queue)}/{job.key}" if self.redis.exists(fence(job.key)) else None

    def observe_all(self, handles):
        ids = [handle.rpartition("/")[2] for handle in handles]
        fences = self.redis.mget([fence(id) for id in ids])
        metas = self.results.mget([self.app.backend.get_key_for_task(id) for id in ids])
        return [self.look(sent, meta) for sent, meta in zip(fences, metas, strict=True)]

    def look(self, sent, meta):
        if meta is None:
            return GONE if sent is None else cancelled() if sent == CANCELLED else queued()
        meta = self.app.backend.decode(meta)
        result = meta["result"]
        match meta["status"]:
            case "SUCCESS":
                return succeeded(result)
            case "FAILURE":
                text = (
                    ", ".join(map(str, result["exc_message"]))
                    if isinstance(result["exc_message"], list)
                    else str(result["exc_message"])
                )
                return failed(f"{result['exc_type']}: {text}", meta.get("traceback"))
            case "REVOKED":
                return cancelled()
            case "STARTED" | "RETRY":
                return running()
            # A state of the task's own: self.update_state(state="PROGRESS", meta={"done": 1, "total": 3}).
            case _ if isinstance(result, dict):
                return running(result.get("message"), result.get("done"), result.get("total"))
        return running(meta["status"])

    def cancel(self, handle):
        queue, _, task_id = handle.rpartition("/")
        if self.redis.eval(TAKE, 2, fence(task_id), queue, CANCELLED, WEEK):
            return
        seen = self.observe_all([handle])[0]
        if seen.state not in ("queued", "running"):
            # Celery would call it revoked, even if it knows nothing of it.
            return
        # A worker has it. The child process that runs the task is killed.
        self.app.control.revoke(task_id, terminate=True, signal="SIGTERM")


if __name__ == "__main__":
    serve(CeleryAdapter)
