"""Starts a development server of Temporal, and a worker with the workflows of worker.py, or of the program WORKER."""

import os
from pathlib import Path

from engine import answers, free_ports


def start(engine, target):
    grpc, http, metrics = free_ports(3)
    bin_folder = target / "bin"
    engine.start(bin_folder / "temporal", "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", grpc,
                 "--http-port", http, "--metrics-port", metrics, "--db-filename", engine.folder / "temporal.db",
                 "--log-level", "error")
    # The namespace is known to the parts of the server one after another: a list needs all that a start needs.
    engine.wait_for(answers(f"http://127.0.0.1:{http}/api/v1/namespaces/default/workflows?pageSize=1"))
    mark = engine.folder / "worker.ready"
    worker = Path(os.environ.get("WORKER", Path(__file__).parent / "worker.py")).resolve()
    engine.start(bin_folder / "python", "-B", worker, f"127.0.0.1:{grpc}", engine.folder)
    engine.wait_for(mark.exists)
    return http
