"""An adapter over a folder of JSON files, for tests: the engine is the folder, so it survives the program.

A mode (config "mode") makes it hostile. A mode "METHOD:FAULT" applies a fault to each call of a method; with
"once" in the config, only until a file of that name exists. It must not depend on anything but Python.
"""

import base64
import json
import os
import subprocess
import sys
import threading
import time

ABILITIES = ["answer", "log", "artifact", "discover", "check_up", "changed", "forget", "files"]
out = threading.Lock()
here = {"folder": None, "config": {}}


def send(text):
    with out:
        sys.stdout.write(text)
        sys.stdout.flush()


def message(**members):
    send(json.dumps({"jsonrpc": "2.0", **members}) + "\n")


class Fault(Exception):
    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


# ------------------------------------------------------------------------------------------------- the engine


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


def record_start(key):
    # One line for each job that really starts: the count of the tests.
    descriptor = os.open(os.path.join(here["folder"], "starts.log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, (key + "\n").encode())
    os.close(descriptor)


starts = threading.Lock()


def start(params):
    target = params["target"]
    if target.get("refuse"):
        raise Fault("rejected", "the engine does not like this job")
    with starts:
        if load(params["key"]) is None:
            record_start(params["key"])
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

# ------------------------------------------------------------------------------------------------- the faults

JUNK = {
    "garbage": "this is not JSON\n",
    "binary": "\x00\x01\x7f\n",
    "half": '{"jsonrpc":"2.0","id":\n',
    "array": "[1,2,3]\n",
    "number": "42\n",
    "text": '"hello"\n',
    "null": "null\n",
    "empty_object": "{}\n",
    "blank": "\n\n \n",
    "unknown_id": '{"jsonrpc":"2.0","id":999999,"result":null}\n',
    "text_id": '{"jsonrpc":"2.0","id":"1","result":null}\n',
    "null_id": '{"jsonrpc":"2.0","id":null,"result":null}\n',
    "float_id": '{"jsonrpc":"2.0","id":1.5,"result":null}\n',
    "negative_id": '{"jsonrpc":"2.0","id":-1,"result":null}\n',
    "huge_id": '{"jsonrpc":"2.0","id":99999999999999999999999,"result":null}\n',
    "request": '{"jsonrpc":"2.0","id":1,"method":"give_me_a_task","params":{}}\n',
    "notification": '{"jsonrpc":"2.0","method":"something","params":[1]}\n',
    "changed_wrong": '{"jsonrpc":"2.0","method":"changed","params":{"jobs":"all"}}\n',
    "changed_null": '{"jsonrpc":"2.0","method":"changed","params":null}\n',
    "changed_unknown": '{"jsonrpc":"2.0","method":"changed","params":{"jobs":["nothing"]}}\n',
    "note_wrong": '{"jsonrpc":"2.0","method":"note","params":{"level":"loud","text":1}}\n',
    "deep": "[" * 100000 + "\n",
    "deep_object": '{"a":' * 100000 + "\n",
    "wide": '{"jsonrpc":"2.0","method":"x","params":[' + "1," * 600000 + "1]}\n",
    "windows": '{"jsonrpc":"2.0","method":"something"}\r\n',
}

RESULTS = {
    "wrong_text": '"what"',
    "wrong_number": "7",
    "wrong_null": "null",
    "wrong_array": "[[]]",
    "wrong_object": '{"unexpected":{"deep":[1,2,3]}}',
    "wrong_true": "true",
    "wrong_handle": '{"handle":{"a":1}}',
    "wrong_states": '[{"state":"exploded"}]',
    "wrong_count": '[{"state":"running"},{"state":"running"},{"state":"running"}]',
    "wrong_deep": "[" * 5000 + "]" * 5000,
    "wrong_nan": "NaN",
}

ERRORS = {
    "error_plain": {"code": -32000, "message": "something"},
    "error_unknown_kind": {"code": -32000, "message": "something", "data": {"kind": "exploded"}},
    "error_wrong_data": {"code": -32000, "message": "something", "data": [1]},
    "error_text": "something",
    "error_null": None,
    "error_huge": {"code": -32000, "message": "x" * 1000000},
    "error_unavailable_kind": {"code": -32000, "message": "away", "data": {"kind": "unavailable"}},
}


def fault_of(method):
    mode = here["config"].get("mode", "")
    at, _, fault = mode.partition(":")
    if at != method or not fault:
        return None
    once = here["config"].get("mode_once")
    if once:
        marker = os.path.join(here["folder"], once)
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return None
    return fault


def die(*_):
    os._exit(3)


def apply(fault, call, work):
    """Answers a call with a fault. Returns what is left to do, if anything."""
    number = call["id"]
    if fault == "die_before":
        die()
    if fault == "die_after":
        work()
        die()
    if fault == "never":
        work()
        return
    if fault == "never_nothing":
        return
    if fault == "half_line":
        work()
        send('{"jsonrpc":"2.0","id":%d,"resu' % number)
        die()
    if fault == "long_line":
        work()
        send('{"jsonrpc":"2.0","id":%d,"result":"' % number)
        for _ in range(1024):
            send("x" * 1048576)
        die()
    if fault == "close_output":
        work()
        os.close(1)
        time.sleep(3600)
    if fault == "close_input":
        work()
        os.close(0)
        time.sleep(3600)
    if fault == "exec_sleep":
        work()
        os.execvp("sleep", ["sleep", "3600"])
    if fault == "stop":
        work()
        os.kill(os.getpid(), 19)
    if fault == "fork":
        subprocess.Popen(["sleep", "3600"], stdin=subprocess.DEVNULL)
        subprocess.Popen(["setsid", "sleep", "3600"], stdin=subprocess.DEVNULL)
        work()
        die()
    result = work()
    if fault == "twice":
        message(id=number, result=result)
        message(id=number, result=result)
    elif fault == "many_times":
        for _ in range(500):
            message(id=number, result=result)
    elif fault == "slow_bytes":
        for byte in json.dumps({"jsonrpc": "2.0", "id": number, "result": result}):
            send(byte)
        send("\n")
    elif fault == "result_and_error":
        message(id=number, result=result, error={"code": 1, "message": "both"})
    elif fault == "neither":
        message(id=number)
    elif fault == "other_id":
        message(id=number + 1000, result=result)
    elif fault in JUNK:
        send(JUNK[fault])
        message(id=number, result=result)
        send(JUNK[fault])
    elif fault in RESULTS:
        send('{"jsonrpc":"2.0","id":%d,"result":%s}\n' % (number, RESULTS[fault]))
    elif fault in ERRORS:
        message(id=number, error=ERRORS[fault])
    elif fault == "flood_changed":
        for _ in range(5000):
            message(method="changed", params={"jobs": ["a", "b"]})
        message(id=number, result=result)
    elif fault == "flood_notes":
        for _ in range(5000):
            message(method="note", params={"level": "error", "text": "x" * 1000})
        message(id=number, result=result)
    elif fault == "flood_errors":
        sys.stderr.write("an error\n" * 200000)
        sys.stderr.flush()
        message(id=number, result=result)
    elif fault == "long_errors":
        sys.stderr.write("e" * 8000000)
        sys.stderr.flush()
        message(id=number, result=result)
    elif fault == "members":
        message(id=number, result=result, more={"a": [1, 2]}, trace="x")
    else:
        raise ValueError("no fault " + fault)


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
