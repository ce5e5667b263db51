"""Starts a master of Buildbot with the builders of master.py. Its workers are part of its process."""

from pathlib import Path

from engine import answers, free_ports

# `buildbot` looks for such a file. Buildbot 4.3.0 writes a reply in a thread, while another one sends what is there: on
# a busy machine, parts of some replies are lost. Here it does both in one.
TAC = """
import os
from pathlib import Path
from types import SimpleNamespace
from twisted.application import service
from buildbot.master import BuildMaster
from buildbot.www import rest
basedir, configfile = os.environ["FOLDER"], os.environ["CONFIG"]
Path(basedir, "pid").write_text(str(os.getpid()))
rest.threads = SimpleNamespace(deferToThread=lambda write, *arguments: write(*arguments))
application = service.Application('buildmaster')
BuildMaster(basedir, configfile, umask=None).setServiceParent(application)
"""


def start(engine, target):
    (port,) = free_ports(1)
    folder, program = engine.folder, target / "bin" / "buildbot"
    for name in ["starts", "offers"]:
        (folder / name).mkdir()
    (folder / "buildbot.tac").write_text(TAC)
    settings = {"FOLDER": str(folder), "CONFIG": str(Path(__file__).parent / "master.py"), "PORT": str(port),
                "PYTHONDONTWRITEBYTECODE": "1"}
    engine.run(program, "upgrade-master", "--quiet", folder, **settings)
    engine.start(program, "start", "--nodaemon", folder, **settings)
    # A builder can be started once a worker is connected.
    engine.wait_for(answers(f"http://127.0.0.1:{port}/api/v2/workers/w1"))
    return port
