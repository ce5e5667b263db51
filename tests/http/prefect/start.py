"""Starts Prefect over PostgreSQL, and a process that serves the flows of flows.py. Over SQLite, Prefect answers 503 to
requests that come at the same time."""

import json
import urllib.request
from pathlib import Path

from engine import PATIENCE, answers, free_ports
from postgres import postgres


def start(engine, target):
    (port,) = free_ports(1)
    folder, bin_folder = engine.folder, target / "bin"
    (folder / "starts").mkdir()
    _, database = postgres(engine)
    settings = {
        "PREFECT_HOME": folder / "prefect",
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_API_DATABASE_CONNECTION_URL": database.replace("://", "+asyncpg://"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": False,
        "DO_NOT_TRACK": 1,
        "PREFECT_SERVER_UI_ENABLED": False,
        # A busy machine must not be mistaken for one without a worker.
        "PREFECT_SERVER_SERVICES_FOREMAN_DEPLOYMENT_LAST_POLLED_TIMEOUT_SECONDS": 600,
        "PREFECT_RUNNER_POLL_FREQUENCY": 1,
        "STARTS": folder / "starts",
        "PYTHONDONTWRITEBYTECODE": 1,
    }
    settings = {name: str(value) for name, value in settings.items()}
    engine.start(bin_folder / "prefect", "server", "start", "--host", "127.0.0.1", "--port", port, **settings)
    engine.wait_for(answers(f"http://127.0.0.1:{port}/api/health"))
    engine.start(bin_folder / "python", Path(__file__).parent / "flows.py", **settings)
    # It is the last deployment that is registered.
    engine.wait_for(answers(f"http://127.0.0.1:{port}/api/deployments/name/greet/friendly"))
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api/deployments/filter", b"{}",
                                     {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
        ids = {deployment["name"]: deployment["id"] for deployment in json.load(reply)}
    (folder / "deployments.json").write_text(json.dumps(ids))
    return port
