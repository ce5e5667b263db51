"""Starts a real engine in a folder, on free ports of 127.0.0.1, and prints `ready PORT`.

    python serve.py ENGINE TARGET FOLDER

ENGINE is the name of a folder beside this file. It stops the engine when its standard input closes, at the latest when
its parent ends. TARGET is the folder of installed engines (tests/http/install); the engine's output is in FOLDER/log.

A part of the engine can be killed and started again: a line `kill PART` or `start PART` on standard input is answered
with `ok`.
"""

import ctypes
import importlib.util
import signal
import sys
from pathlib import Path

from engine import Engine

PR_SET_CHILD_SUBREAPER = 36


def start_of(name):
    """The function `start(engine, target)` of an engine's folder, which returns its port."""
    spec = importlib.util.spec_from_file_location(f"start_{name}", Path(__file__).parent / name / "start.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.start


def main():
    name, target, folder = sys.argv[1], Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    # A process whose parent has ended becomes a child of this one.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    engine = Engine(folder)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        port = start_of(name)(engine, target / name)
        print(f"ready {port}", flush=True)
        for line in sys.stdin:
            engine.obey(*line.split())
            print("ok", flush=True)
    finally:
        engine.stop()


if __name__ == "__main__":
    main()
