"""Starts a server with Google's two APIs of Workflows, over the interpreter workflows-emulator: see server.py."""

import shutil
from pathlib import Path

from engine import answers, free_ports


def start(engine, target):
    (port,) = free_ports(1)
    here = Path(__file__).parent
    shutil.copytree(here / "workflows", engine.folder / "workflows")
    (engine.folder / "starts").mkdir()
    # The processes of executions are forked from one that has imported the interpreter, and finds it by this path.
    engine.start(target / "bin/python", "-B", here / "server.py", port, engine.folder, PYTHONPATH=str(here),
                 PYTHONDONTWRITEBYTECODE="1")
    engine.wait_for(answers(f"http://127.0.0.1:{port}/ready"))
    return port
