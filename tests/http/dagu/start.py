"""Starts Dagu, with an empty folder `dags`."""

from engine import answers, free_ports


def start(engine, target):
    port, coordinator = free_ports(2)
    (engine.folder / "dags").mkdir(exist_ok=True)
    program = target / "node_modules" / "@dagu-org" / "dagu-linux-x64" / "bin" / "dagu"
    engine.start(program, "start-all", "--host", "127.0.0.1", "--port", port, "--coordinator.port", coordinator,
                 DAGU_HOME=str(engine.folder), DAGU_DAGS_DIR=str(engine.folder / "dags"))
    engine.wait_for(answers(f"http://127.0.0.1:{port}/api/v2/health"))
    return port
