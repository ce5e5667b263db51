"""Starts a Ray cluster of one node. Ray listens on every interface, so it has a network namespace of its own."""

import http.client
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

from engine import PATIENCE, free_ports

# A port in the namespace, where all are free.
DASHBOARD = 8265


def start(engine, target):
    (port,) = free_ports(1)
    folder, bin_folder, network = engine.folder, target / "bin", Path(__file__).parent / "network.py"
    (folder / "starts").mkdir()
    unshare = ["unshare", "--net"]
    if os.geteuid() != 0:
        unshare.append("--map-root-user")
    if subprocess.run([*unshare, "true"]).returncode:
        raise SystemExit("Ray needs a network namespace: run the tests as root, or allow namespaces for users")
    python = [sys.executable, "-B", network]
    # With `--block`, all of it ends when one part does, such as one that is not needed here and starts too slowly.
    ray = [bin_folder / "ray", "start", "--head", "--node-ip-address", "127.0.0.1", "--num-cpus", "4",
           "--object-store-memory", "100000000", "--temp-dir", folder / "ray", "--include-log-monitor", "false",
           "--disable-usage-stats", "--dashboard-host", "127.0.0.1", "--dashboard-port", DASHBOARD,
           # Without these, Ray waits for its agents to write their ports into files, and fails on a busy machine.
           "--dashboard-agent-grpc-port", "52365", "--dashboard-agent-listen-port", "52366",
           "--runtime-env-agent-port", "52367", "--metrics-export-port", "52368"]
    # The commands of jobs find this Python, and record their starts.
    settings = {"PATH": f"{bin_folder}:{os.environ['PATH']}", "STARTS": str(folder / "starts"),
                "PYTHONDONTWRITEBYTECODE": "1"}
    # A busy machine is slow, and not dead.
    settings |= {"RAY_agent_register_timeout_ms": "600000", "RAY_worker_register_timeout_seconds": "600",
                 "RAY_health_check_timeout_ms": "600000", "RAY_health_check_failure_threshold": "60"}
    engine.start(*unshare, *python, "inside", folder / "socket", DASHBOARD, *ray, **settings)
    engine.start(*python, "outside", folder / "socket", port)
    # The head accepts jobs once its agent is there.
    engine.wait_for(lambda: accepts_job(port))
    return port


def accepts_job(port):
    body = json.dumps({"entrypoint": "true"}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api/jobs/", body, {"content-type": "application/json"})
    try:
        return urllib.request.urlopen(request, timeout=PATIENCE).status == 200
    except (OSError, http.client.HTTPException):
        return False
