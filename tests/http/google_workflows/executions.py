"""[`Executions`]: all executions, each a process (runner.py), with their steps and callbacks. It must not know HTTP."""

import json
import multiprocessing
import threading
import uuid
from datetime import UTC, datetime

import runner

ENDS = {"succeeded": "SUCCEEDED", "failed": "FAILED"}
SPAWN = multiprocessing.get_context("forkserver")
SPAWN.set_forkserver_preload(["runner"])


def timestamp(time):
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


def now():
    return timestamp(datetime.now(UTC))


class Callback:
    def __init__(self, method):
        self.id, self.method = f"{uuid.uuid4()}_{uuid.uuid4()}", method
        self.payloads, self.waiter = [], None


class Execution:
    """One execution of a workflow. Each is a line of FOLDER/starts/KEY, by the label of the bridge. `host` is what the
    addresses of its callbacks begin with.
    """

    def __init__(self, folder, parent, given, environment, host):
        self.id, self.parent = str(uuid.uuid4()), parent
        self.name = f"{parent}/executions/{self.id}"
        self.state, self.given, self.host = "QUEUED", given, host
        self.create_time, self.start_time, self.end_time = now(), None, None
        self.result, self.error = None, None
        self.steps, self.callbacks = {}, {}
        self.lock = threading.RLock()
        self.pipe, theirs = SPAWN.Pipe()
        with (folder / "starts" / given.get("labels", {}).get("taskbridge", "none")).open("a") as file:
            file.write(f"{self.name}\n")
        environment = {**environment, "GOOGLE_CLOUD_WORKFLOW_EXECUTION_ID": self.id}
        source = folder / "workflows" / f"{parent.rpartition('/')[2]}.yaml"
        arguments = (theirs, source, given.get("argument", "null"), environment)
        self.process = SPAWN.Process(target=runner.run, args=arguments, daemon=True)
        self.thread = threading.Thread(target=self._listen, args=(theirs,), daemon=True)
        self.thread.start()

    def _listen(self, theirs):
        with self.lock:
            if self.end_time:
                return
            self.process.start()
        theirs.close()
        try:
            while True:
                event, *values = self.pipe.recv()
                with self.lock:
                    if not self.end_time:
                        self._take(event, values)
        except EOFError:
            pass
        self.process.join()
        with self.lock:
            if not self.end_time:
                self._end("FAILED", error={"payload": '"the interpreter ended"', "context": "the interpreter ended"})

    def _take(self, event, values):
        if event == "began":
            self.state, self.start_time = "ACTIVE", now()
        elif event == "step":
            entry, step, kind = values
            self.steps[entry] = {
                "name": f"{self.name}/stepEntries/{entry}", "entryId": str(entry), "routine": "main", "step": step,
                "stepType": kind, "state": "STATE_IN_PROGRESS", "createTime": now(), "updateTime": now(),
            }
        elif event == "step ended":
            entry, state = values
            self.steps[entry] |= {"state": state, "updateTime": now()}
        elif event == "callback":
            callback = Callback(values[0])
            self.callbacks[callback.id] = callback
            self.pipe.send(f"{self.host}/v1/{self.name}/callbacks/{callback.id}")
        elif event == "await":
            self._await(*values)
        else:
            ended = event == "succeeded"
            self._end(ENDS[event], *([values[0]] if ended else [None, dict(zip(["payload", "context"], values))]))

    def _await(self, url, seconds):
        callback = self.callbacks[url.rpartition("/")[2]]
        if callback.payloads:
            self.pipe.send((callback.payloads.pop(0), now()))
            return
        callback.waiter = threading.Timer(seconds, self._time_out, [callback])
        callback.waiter.daemon = True
        callback.waiter.start()

    def _time_out(self, callback):
        with self.lock:
            if callback.waiter and not self.end_time:
                callback.waiter = None
                self.pipe.send(None)

    def receive(self, callback_id, method, body):
        """Takes the request for a callback. False if there is none such."""
        with self.lock:
            callback = self.callbacks.get(callback_id)
            if not callback or self.end_time or callback.method != method:
                return False
            if callback.waiter:
                callback.waiter.cancel()
                callback.waiter = None
                self.pipe.send((body, now()))
            else:
                callback.payloads.append(body)
            return True

    def cancel(self):
        """Kills the process. False if the execution has ended."""
        with self.lock:
            if self.end_time:
                return False
            self._end("CANCELLED")
            if self.process.pid:
                self.process.kill()
            return True

    def _end(self, state, result=None, error=None):
        self.state, self.result, self.error, self.end_time = state, result, error, now()
        for callback in self.callbacks.values():
            if callback.waiter:
                callback.waiter.cancel()

    def basic(self):
        """The view BASIC: the fields that its description names."""
        with self.lock:
            view = {"name": self.name, "state": self.state, "startTime": self.start_time, "endTime": self.end_time,
                    "workflowRevisionId": "000001-a4d"}
            if self.start_time and self.end_time:
                duration = datetime.fromisoformat(self.end_time) - datetime.fromisoformat(self.start_time)
                view["duration"] = f"{duration.total_seconds():.6f}s"
            return present(view)

    def full(self):
        with self.lock:
            steps = [entry["step"] for entry in self.steps.values()]
            status = {"currentSteps": [{"routine": "main", "step": steps[-1]}]} if steps else None
            return self.basic() | present({**self.given, "createTime": self.create_time, "result": self.result,
                                           "error": self.error, "status": status})

    def entries(self):
        with self.lock:
            return [dict(entry) for _, entry in sorted(self.steps.items())]

    def open_callbacks(self):
        """The callbacks of an execution that runs. As in JSON of Google's APIs, a number that is 0 is left out."""
        with self.lock:
            return [] if self.end_time else [
                present({
                    "name": f"{self.name}/callbacks/{callback.id}", "method": callback.method,
                    "waiters": "1" if callback.waiter else None,
                    "availablePayloads": [json.dumps(payload) for payload in callback.payloads] or None,
                })
                for _, callback in sorted(self.callbacks.items())
            ]


def present(fields):
    return {name: value for name, value in fields.items() if value is not None}
