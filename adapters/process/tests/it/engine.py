"""An adapter over a folder of JSON files, for tests: the engine is the folder, so it survives the program.

A mode (config "mode") makes it hostile. A mode "METHOD:FAULT" applies a fault of `faults.py` to each call of a method;
with "mode_once" in the config, only until a file of that name exists. It must not depend on anything but Python.
"""

import base64
import fcntl
import json
import os
import sys
import threading
import time

# The tests run it in the folder of the source.
sys.dont_write_bytecode = True

from faults import apply, fault_of
from wire import here, message

ABILITIES = ["answer", "log", "artifact", "discover", "check_up", "changed", "forget", "files"]


class Fault(Exception):
    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


def path(handle):
    if "/" in handle or handle.startswith("."):
        return None
    return os.path.join(here["folder"], handle + ".json")


def load(handle):
    file = path(handle)
    if file is None or not os.path.exists(file):
        return None
    with open(file) as text:
        return json.load(text)


def save(handle, job):
    # The name of the temporary file can never be read as a job, and the rename is atomic.
    temporary = os.path.join(here["folder"], ".%s.%d.%d.tmp" % (handle, os.getpid(), threading.get_ident()))
    with open(temporary, "w") as text:
        json.dump(job, text)
    os.rename(temporary, path(handle))


starts = threading.Lock()


def accept(key):
    # One line for each job that starts: the count of the tests. The line is what accepts a job, in one write and under a
    # lock of the file: a program that is killed, and the one after it, may be at the same start.
    with open(os.path.join(here["folder"], "starts.log"), "a+b", buffering=0) as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        log.seek(0)
        line = (key + "\n").encode()
        if line not in log.readlines():
            log.write(line)


def start(params):
    target = params["target"]
    if target.get("refuse"):
        raise Fault("rejected", "the engine does not like this job")
    with starts:
        accept(params["key"])
        if load(params["key"]) is None:
            job = {"target": target, "at": time.time(), "cancelled": False, "answers": {}}
            job["files"] = [{"name": f["name"], "data": f["data"]} for f in params["files"]]
            save(params["key"], job)
    message(method="changed", params={"jobs": [params["key"]]})
    return {"handle": params["key"]}


def find(params):
    return {"handle": params["key"]} if load(params["key"]) else None


def end_of(job):
    target = job["target"]
    if job["cancelled"]:
        return "cancelled"
    if target.get("ask") and not job["answers"]:
        return None
    if target.get("long"):
        return None
    if time.time() < job["at"] + target.get("seconds", 0):
        return None
    return "failed" if target.get("fail") else "succeeded"


def look(handle):
    job = load(handle)
    if job is None:
        return {"state": "gone"}
    state, target = end_of(job), job["target"]
    if state is None:
        seen = {"state": "running", "progress": {"done": 1, "total": 2}}
        if target.get("ask") and not job["answers"]:
            schema = {"type": "object", "properties": {"yes": {"type": "boolean"}}}
            seen["questions"] = [{"id": "q", "message": "Go on?", "schema": schema}]
        return seen
    output = {"content": [{"type": "text", "text": target.get("text", "done")}]}
    if target.get("file"):
        output["artifacts"] = [{"name": "out.txt", "size": len(target["file"])}]
    seen = {"state": {state: output if state == "succeeded" else {}}}
    if state == "failed":
        seen["message"] = "the job failed"
    return seen


def observe_all(params):
    return [look(job["handle"]) for job in params["jobs"]]


def cancel(params):
    job = load(params["handle"])
    if job is not None and end_of(job) is None:
        job["cancelled"] = True
        save(params["handle"], job)
        message(method="changed", params={"jobs": [params["handle"]]})
    return None


def answer(params):
    with starts:
        job = load(params["handle"])
        if job is None or params["question"] != "q":
            return "too_late"
        if "q" in job["answers"]:
            return "accepted" if job["answers"]["q"] == params["answer"] else "too_late"
        if end_of(job) is not None:
            return "too_late"
        job["answers"]["q"] = params["answer"]
        save(params["handle"], job)
    return "accepted"


def log(params):
    job = load(params["handle"])
    lines = (job or {"target": {}})["target"].get("lines", [])
    if params.get("search"):
        lines = [line for line in lines if params["search"].lower() in line.lower()]
    return {"text": "".join(line + "\n" for line in lines), "cut": False}


def artifact(params):
    job = load(params["handle"])
    if job is None or params["name"] != "out.txt" or not job["target"].get("file"):
        return None
    data = job["target"]["file"].encode()
    part = data[params["offset"] :][: min(params["max_bytes"], 5)]
    return {"data": base64.b64encode(part).decode(), "size": len(data), "mime_type": "text/plain"}


def discover(_):
    tools = []
    for name in sorted(os.listdir(here["folder"])):
        if name.endswith(".tool"):
            schema = {"type": "object", "properties": {}}
            tools.append({"name": name[:-5], "input_schema": schema, "target": {"text": "tool " + name[:-5]}})
    return tools


def check_up(params):
    findings = [{"what": "folder", "verdict": "ok", "says": "the folder is there"}]
    for tool in params["tools"]:
        if tool["target"].get("missing"):
            what = "tool `%s`" % tool["tool"]
            findings.append({"what": what, "verdict": "fault", "says": "no such job", "fix": "create it"})
    return findings


def forget(params):
    file = path(params["handle"])
    if file and os.path.exists(file):
        os.remove(file)
    return None


METHODS = {
    f.__name__: f
    for f in [start, find, observe_all, cancel, answer, log, artifact, discover, check_up, forget]
}
METHODS["shutdown"] = lambda _: None


def describe(_):
    target = {"type": "object", "properties": {"seconds": {"type": "number"}}}
    config = {"type": "object", "required": ["folder"], "properties": {"folder": {"type": "string"}}}
    return {"protocol": 1, "name": "test", "schemas": {"config": config, "target": target}}


def initialize(params):
    config = params["config"]
    if "folder" not in config:
        raise Fault("config", "folder: missing")
    here["folder"], here["config"] = config["folder"], config
    result = {"protocol": 1, "once": config.get("once", "key"), "abilities": ABILITIES, "identity": "test"}
    result.update(config.get("initialize", {}))
    return result


METHODS["describe"], METHODS["initialize"] = describe, initialize


def serve(call):
    method = call["method"]
    work = lambda: METHODS[method](call.get("params", {}))
    try:
        if method not in METHODS:
            message(id=call["id"], error={"code": -32601, "message": "unknown method"})
            return
        fault = fault_of(method)
        if fault is not None:
            apply(fault, call, work)
            return
        result = work()
        message(id=call["id"], result=result)
    except Fault as error:
        data = {"kind": error.kind}
        message(id=call["id"], error={"code": -32000, "message": str(error), "data": data})
    except Exception as error:
        message(id=call["id"], error={"code": -32000, "message": repr(error)})
    if method == "shutdown":
        os._exit(0)


def main():
    for line in sys.stdin:
        call = json.loads(line)
        if "method" not in call:
            continue
        if call["method"] == "initialize":
            # The mode comes with the config, so it is known before the first answer.
            here["config"], here["folder"] = call["params"]["config"], call["params"]["config"].get("folder")
        threading.Thread(target=serve, args=(call,), daemon=True).start()


if __name__ == "__main__":
    main()
