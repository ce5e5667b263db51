"""Runs one execution by workflows-emulator, in a process of its own. What the interpreter lacks is here: callbacks of
the standard library, and a report of each step. It talks to the server by a pipe, and must not know its APIs.
"""

import json
import os
import threading
from types import SimpleNamespace

import workflows_emulator.main as emulator
import workflows_emulator.render as render
from workflows_emulator.utils import ContextDict, WorkflowError

STEP_TYPES = {
    "call": "STEP_STD_LIB_CALL", "return": "STEP_RETURN", "assign": "STEP_ASSIGN", "raise": "STEP_RAISE",
    "retry": "STEP_TRY_RETRY_EXCEPT", "try": "STEP_TRY_RETRY_EXCEPT", "for": "STEP_FOR",
    "parallel": "STEP_PARALLEL_BRANCH", "switch": "STEP_SWITCH", "next": "STEP_GOTO",
}


class Runner:
    def __init__(self, pipe):
        self.pipe, self.lock = pipe, threading.Lock()
        self.count, self.step = 0, ""

    def tell(self, *event):
        with self.lock:
            self.pipe.send(event)

    def ask(self, *event):
        with self.lock:
            self.pipe.send(event)
            return self.pipe.recv()

    def create_callback_endpoint(self, http_callback_method="POST"):
        return {"url": self.ask("callback", http_callback_method)}

    def await_callback(self, callback, timeout=43200.0):
        body = self.ask("await", callback["url"], float(timeout))
        if body is None:
            raise WorkflowError(message="timed out waiting for the callback", tags=["TimeoutError"])
        return {"type": "HTTP", "received_time": body[1], "http_request": {"method": "POST", "body": body[0]}}

    def watch(self, execute_step):
        """Returns the function of the interpreter, with a report of each step."""
        def watched(step_id, config, context):
            kind = next((STEP_TYPES[field] for field in STEP_TYPES if field in config), None)
            if kind is None:
                return execute_step(step_id, config, context)
            self.count += 1
            entry, self.step = self.count, step_id
            self.tell("step", entry, step_id, kind)
            try:
                returned = execute_step(step_id, config, context)
            except Exception:
                self.tell("step ended", entry, "STATE_FAILED")
                raise
            self.tell("step ended", entry, "STATE_SUCCEEDED")
            return returned
        return watched


def run(pipe, source, argument, environment):
    """Runs a workflow to its end."""
    os.environ.update(environment)
    runner = Runner(pipe)
    events = SimpleNamespace(
        create_callback_endpoint=runner.create_callback_endpoint, await_callback=runner.await_callback
    )
    render.STANDARD_LIBRARY["events"] = events
    # The interpreter reads the text of a map as YAML, and that of Python is none if it has quotes.
    ContextDict.__str__ = lambda self: json.dumps(self.to_dict())
    emulator.execute_step = runner.watch(emulator.execute_step)
    runner.tell("began")
    try:
        config = emulator.load_workflow(source)
        # The one parameter of `main` is the whole argument.
        names = config.get("main", {}).get("params", []) if isinstance(config, dict) else []
        result = emulator.execute_workflow(config, {name: json.loads(argument) for name in names[:1]})
        runner.tell("succeeded", json.dumps(result))
    except Exception as error:
        payload = getattr(error, "payload", str(error))
        text = json.dumps(payload)
        runner.tell("failed", text, f'{type(error).__name__}: {text}\nin step "{runner.step}", routine "main"')
