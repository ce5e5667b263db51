"""The faults of the test program, by name: what it does in place of an answer, or beside it."""

import json
import os
import signal
import sys
import time

from wire import here, message, send

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
    "byte_order_mark": '\ufeff{"jsonrpc":"2.0","method":"something"}\n',
    "nothing_but_nul": "\0" * 100000 + "\n",
    "two_on_a_line": '{"jsonrpc":"2.0","method":"a"}{"jsonrpc":"2.0","method":"b"}\n',
    "changed_many": '{"jsonrpc":"2.0","method":"changed","params":{"jobs":[' + '"x",' * 100000 + '"x"]}}\n',
    "changed_long": '{"jsonrpc":"2.0","method":"changed","params":{"jobs":["' + "x" * 1000000 + '"]}}\n',
    "method_twice": '{"jsonrpc":"2.0","method":"note","method":"changed"}\n',
    "method_number": '{"jsonrpc":"2.0","method":7}\n',
    "zero_id": '{"jsonrpc":"2.0","id":0,"result":null}\n',
    "exponent_id": '{"jsonrpc":"2.0","id":1e2,"result":null}\n',
    "array_id": '{"jsonrpc":"2.0","id":[1],"method":"x"}\n',
    "batch": '[{"jsonrpc":"2.0","id":1,"result":null}]\n',
}

# Lines that are no text.
BYTES = {
    "invalid_utf8": b'{"jsonrpc":"2.0","method":"\xff\xfe\x80"}\n',
    "utf16": '{"jsonrpc":"2.0","method":"x"}'.encode("utf-16") + b"\n",
    "surrogates": b'{"jsonrpc":"2.0","method":"\xed\xa0\x80"}\n',
}

# What is put before and after the members of an answer.
ENVELOPES = {
    "version_1": '{"jsonrpc":"1.0","id":%d,"result":%s}\n',
    "version_number": '{"jsonrpc":2.0,"id":%d,"result":%s}\n',
    "no_version": '{"id":%d,"result":%s}\n',
    "spaces": '  {  "jsonrpc" : "2.0" , "id" : %d , "result" : %s }  \n',
    "changed_beside": '{"jsonrpc":"2.0","id":%d,"changed":["x","y"],"result":%s}\n',
    "changed_beside_wrong": '{"jsonrpc":"2.0","id":%d,"changed":{"all":true},"result":%s}\n',
    "id_twice": '{"jsonrpc":"2.0","id":%d,"id":7,"result":%s}\n',
    "result_twice": '{"jsonrpc":"2.0","id":%d,"result":null,"result":%s}\n',
    "method_beside": '{"jsonrpc":"2.0","method":"x","id":%d,"result":%s}\n',
    "comma": '{"jsonrpc":"2.0","id":%d,"result":%s,}\n',
    "id_as_text": '{"jsonrpc":"2.0","id":"%d","result":%s}\n',
    "lines": '{"jsonrpc":"2.0",\n"id":%d,\n"result":%s}\n',
    "no_newline": '{"jsonrpc":"2.0","id":%d,"result":%s}',
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
    if fault == "late":
        result = work()
        # The server gives a call up after 9 s here.
        time.sleep(12)
        message(id=number, result=result)
        return
    if fault == "exit_0":
        work()
        os._exit(0)
    if fault == "crash":
        work()
        os.kill(os.getpid(), signal.SIGSEGV)
    if fault == "deaf":
        work()
        deaf = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; time.sleep(3600)"
        os.execvp(sys.executable, [sys.executable, "-c", deaf])
    if fault == "heir":
        import subprocess

        # A child keeps the pipes of a program that has died.
        subprocess.Popen(["sleep", "3600"])
        work()
        die()
    if fault == "fork":
        import subprocess

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
    elif fault in BYTES:
        send(BYTES[fault])
        message(id=number, result=result)
        send(BYTES[fault])
    elif fault == "result_first":
        send('{"result":%s,"id":%d}\n' % (json.dumps(result), number))
    elif fault in ENVELOPES:
        send(ENVELOPES[fault] % (number, json.dumps(result)))
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
    elif fault == "flood_requests":
        for id in range(5000):
            message(id=id, method="give_me_a_task", params={})
        message(id=number, result=result)
    elif fault == "flood_answers":
        for id in range(5000):
            message(id=id + 1000000, result=[1, 2, 3])
        message(id=number, result=result)
    elif fault == "flood_blank":
        send("\n" * 5000)
        message(id=number, result=result)
    elif fault == "flood_notes":
        for _ in range(5000):
            message(method="note", params={"level": "error", "text": "x" * 1000})
        message(id=number, result=result)
    elif fault == "flood_errors":
        sys.stderr.write("an error\n" * 100000)
        sys.stderr.flush()
        message(id=number, result=result)
    elif fault == "long_errors":
        sys.stderr.write("e" * 8000000)
        sys.stderr.flush()
        message(id=number, result=result)
    elif fault == "binary_errors":
        sys.stderr.buffer.write(bytes(range(256)) * 1000)
        sys.stderr.flush()
        message(id=number, result=result)
    elif fault == "close_errors":
        os.close(2)
        message(id=number, result=result)
    elif fault == "members":
        message(id=number, result=result, more={"a": [1, 2]}, trace="x")
    else:
        raise ValueError("no fault " + fault)
