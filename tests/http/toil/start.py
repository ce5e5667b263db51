"""Starts the WES server of Toil. Without Celery, which needs a broker, it runs workflows below its only worker."""

import os

from engine import answers, free_ports


def start(engine, target):
    (port,) = free_ports(1)
    folder, bin_folder = engine.folder, target / "bin"
    (folder / "starts").mkdir()
    engine.start(bin_folder / "toil", "server", "--bypass_celery", "--host", "127.0.0.1", "--port", port, "--workers", 1,
                 "--work_dir", folder / "workflows", "--opt=--logLevel=WARNING", f"--opt=--workDir={folder}",
                 PATH=f"{bin_folder}:{os.environ['PATH']}", STARTS=str(folder / "starts"), TMPDIR=str(folder),
                 PYTHONDONTWRITEBYTECODE="1")
    engine.wait_for(answers(f"http://127.0.0.1:{port}/ga4gh/wes/v1/service-info"))
    return port
