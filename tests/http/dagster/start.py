"""Starts Dagster with the jobs of jobs.py: a code server, the daemon that starts queued runs, and the webserver."""

import json
import socket
import urllib.request
from pathlib import Path

from engine import free_ports

DAEMON = """{ instance { daemonHealth { daemonStatus(daemonType: "QUEUED_RUN_COORDINATOR") { healthy } } } }"""


def listens(port):
    def ready():
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", port)) == 0
    return ready


def daemon_is_healthy(port):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/graphql", json.dumps({"query": DAEMON}).encode(),
                                     {"content-type": "application/json"})

    def ready():
        try:
            with urllib.request.urlopen(request, timeout=5) as reply:
                return json.load(reply)["data"]["instance"]["daemonHealth"]["daemonStatus"]["healthy"]
        except OSError:
            return False
    return ready


def start(engine, target):
    port, code = free_ports(2)
    folder, bin_folder = engine.folder, target / "bin"
    (folder / "starts").mkdir()
    # YAML is a superset of JSON.
    (folder / "dagster.yaml").write_text(json.dumps({
        "telemetry": {"enabled": False},
        "run_coordinator": {"module": "dagster._core.run_coordinator", "class": "QueuedRunCoordinator",
                            "config": {"max_concurrent_runs": 30, "dequeue_interval_seconds": 1, "dequeue_use_threads": True,
                                       "dequeue_num_workers": 4}},
    }))
    (folder / "workspace.yaml").write_text(json.dumps(
        {"load_from": [{"grpc_server": {"host": "127.0.0.1", "port": code, "location_name": "jobs"}}]}))
    settings = {"DAGSTER_HOME": str(folder), "STARTS": str(folder / "starts"), "PYTHONDONTWRITEBYTECODE": "1"}
    engine.start(bin_folder / "dagster", "api", "grpc", "--python-file", Path(__file__).parent / "jobs.py", "--host",
                 "127.0.0.1", "--port", code, **settings)
    engine.wait_for(listens(code))
    workspace = ["--workspace", folder / "workspace.yaml"]
    engine.start(bin_folder / "dagster-daemon", "run", *workspace, **settings)
    engine.start(bin_folder / "dagster-webserver", "--host", "127.0.0.1", "--port", port, *workspace, **settings)
    engine.wait_for(daemon_is_healthy(port))
    return port
