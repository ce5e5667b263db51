"""Runs a stand-in for AWS on a free port of 127.0.0.1, in a folder of its own, until the standard input ends.

    serve.py localstack|ministack FOLDER

It prints `ready PORT` when the stand-in answers. Whoever started it holds its input open: when that is closed, however
its owner went, the stand-in ends with this process, and the folder is deleted.
"""

import os
import shutil
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[4] / "tests"))

from ports import free_port  # noqa: E402

NEEDED = "cloudformation,stepfunctions,sqs,iam,sts,events,s3,lambda,logs,cloudwatch,sns"


def end_with_input(folder):
    while os.read(0, 4096):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def tell_when_ready(out, port):
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/_localstack/health", timeout=1):
                break
        except (OSError, urllib.error.URLError):
            time.sleep(0.05)
    os.write(out, f"ready {port}\n".encode())


def localstack(folder, port):
    os.environ.update(
        GATEWAY_LISTEN=f"127.0.0.1:{port}",
        FILESYSTEM_ROOT=os.path.join(folder, "fs"),
        DNS_ADDRESS="0",
        DISABLE_EVENTS="1",
        SKIP_SSL_CERT_DOWNLOAD="1",
        STRICT_SERVICE_LOADING="1",
        SERVICES=NEEDED,
    )
    # The server names no interface, and would take all of them.
    from twisted.internet import endpoints

    endpoint = endpoints.TCP4ServerEndpoint
    init = endpoint.__init__

    def on_loopback(self, reactor, port, backlog=50, interface="127.0.0.1"):
        init(self, reactor, port, backlog, interface or "127.0.0.1")

    endpoint.__init__ = on_loopback
    # A stop that comes before the thread of an execution has begun is an internal error there. Here it waits for that.
    from localstack.services.stepfunctions.backend.execution_worker import ExecutionWorker

    stop = ExecutionWorker.stop

    def stop_once_begun(self, *args, **kwargs):
        while self.env is None:
            time.sleep(0.005)
        return stop(self, *args, **kwargs)

    ExecutionWorker.stop = stop_once_begun
    # A list while another client creates something is an internal error there: it walks through what is being changed.
    from localstack.services.stepfunctions.backend.store import SFNStore
    from localstack.services.stores import LocalAttribute

    class Steady(dict):
        def values(self):
            return list(super().values())

    for attribute in vars(SFNStore).values():
        if isinstance(attribute, LocalAttribute) and attribute.default in (dict, OrderedDict):
            attribute.default = Steady
    from localstack.runtime.main import main

    main()


def ministack(folder, port):
    os.environ.update(BIND_HOST="127.0.0.1", GATEWAY_PORT=str(port), MINISTACK_HOST="127.0.0.1")
    from ministack.app import main

    sys.argv = ["ministack"]
    main()


def main():
    kind, folder = sys.argv[1:]
    folder = os.path.abspath(folder)
    os.chdir(folder)
    os.environ.update(TMPDIR=folder, HOME=folder)
    port = free_port()
    out = os.dup(1)
    log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    threading.Thread(target=end_with_input, args=[folder], daemon=True).start()
    threading.Thread(target=tell_when_ready, args=[out, port], daemon=True).start()
    {"localstack": localstack, "ministack": ministack}[kind](folder, port)


main()
