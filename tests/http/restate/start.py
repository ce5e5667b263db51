"""Starts Restate, with the services of services.mjs, behind a reverse proxy: its two ports are `/ingress` and `/admin`."""

import json
import shutil
import sys
import urllib.request
from pathlib import Path

from engine import PATIENCE, answers, free_ports

CONFIG = """
listen-mode = "tcp"
bind-ip = "127.0.0.1"
bind-port = {node}
advertised-host = "127.0.0.1"
base-dir = "{folder}/data"
default-num-partitions = 1
rocksdb-total-memory-size = "256.0 MiB"
disable-telemetry = true
[admin]
bind-port = {admin}
disable-web-ui = true
[ingress]
bind-port = {ingress}
"""


def start(engine, target):
    port, node, admin, ingress, services = free_ports(5)
    folder, here, modules = engine.folder, Path(__file__).parent, target / "node_modules"
    (folder / "starts").mkdir()
    (folder / "restate.toml").write_text(CONFIG.format(folder=folder, node=node, admin=admin, ingress=ingress))
    # Node looks for packages beside the file.
    (folder / "node_modules").symlink_to(modules)
    shutil.copy(here / "services.mjs", folder)
    program = modules / "@restatedev" / "restate-server-linux-x64" / "bin" / "restate-server"
    engine.start(program, "--no-logo", "--config-file", folder / "restate.toml")
    engine.start("node", folder / "services.mjs", PORT=str(services), STARTS=str(folder / "starts"))
    engine.start(sys.executable, "-B", here / "proxy.py", port, ingress, admin)
    base = f"http://127.0.0.1:{port}"
    engine.wait_for(answers(f"{base}/admin/health"))
    engine.wait_for(answers(f"{base}/ingress/restate/health"))
    engine.wait_for(lambda: register(base, services))
    engine.wait_for(lambda: knows_no_invocation(base))
    return port


def register(base, port):
    """Makes the services known. Restate fails while they do not listen yet."""
    body = json.dumps({"uri": f"http://127.0.0.1:{port}"}).encode()
    request = urllib.request.Request(f"{base}/admin/deployments", body, {"content-type": "application/json"})
    try:
        return urllib.request.urlopen(request, timeout=PATIENCE).status in [200, 201]
    except OSError:
        return False


def knows_no_invocation(base):
    """Whether the partition serves cancellations, which it does a little later than the rest: 404 and not 503."""
    path = "/admin/invocations/inv_17OQI7pIgZVA6KSKtegek50oGMyP5J93iZ/cancel"
    try:
        urllib.request.urlopen(urllib.request.Request(base + path, method="PATCH"), timeout=PATIENCE)
    except OSError as error:
        return getattr(error, "status", None) == 404
    return False
