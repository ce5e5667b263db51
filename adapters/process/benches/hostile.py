"""A program that is a bad neighbour: `hostile.py MODE`."""

import json
import os
import sys
import threading

MODE = sys.argv[1]
out = threading.Lock()


def write(data):
    with out:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def reply(call, result):
    write(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}).encode() + b"\n")


def flood():
    hint = json.dumps({"jsonrpc": "2.0", "method": "changed", "params": {"jobs": ["a", "b"]}}) + "\n"
    while True:
        write(hint.encode())


def flood_log():
    while True:
        os.write(2, b"something went wrong\n" * 100)


for line in sys.stdin.buffer:
    call = json.loads(line)
    if call["method"] == "initialize":
        reply(call, {"protocol": 1, "once": "key", "abilities": ["changed"]})
        if MODE == "flood":
            threading.Thread(target=flood, daemon=True).start()
            threading.Thread(target=flood_log, daemon=True).start()
    elif MODE == "flood":
        reply(call, [{"state": "running"}])
    elif MODE == "die":
        os._exit(1)
    elif MODE == "garbage":
        write(b"x" * (1 << 20) + b"\n")
