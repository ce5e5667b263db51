"""Starts a real engine in a folder, on free ports of 127.0.0.1, and prints `ready PORT`.

    python serve.py temporal|dagu|airflow|pygeoapi TARGET FOLDER

It stops the engine when its standard input closes, at the latest when its parent ends. TARGET is the folder of
installed engines (tests/http/install); the engine's output is in FOLDER/log.

Airflow's parts `api-server` and `scheduler` can be killed and started again: a line `kill PART` or `start PART` on
standard input is answered with `ok`. Settings of Airflow in the environment (`AIRFLOW__..`) go before its own.
"""

import ctypes
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

# A busy machine may need this long.
PATIENCE = 600
PR_SET_CHILD_SUBREAPER = 36


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def session_of(leader):
    """The processes of a session."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            # It has ended.
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            yield int(stat.parent.name)


class Engine:
    def __init__(self, folder):
        self.folder, self.processes = folder, []
        # By the name of the part: how it is started, its process, and what makes the check of whether it is ready.
        self.parts = {}
        self.log = (folder / "log").open("ab")

    def start(self, *command, **environment):
        variables = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8"} | environment
        # A signal for this process must not reach it.
        process = subprocess.Popen([str(part) for part in command], cwd=self.folder, env=variables,
                                   stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)
        self.processes.append(process)
        return process

    def start_part(self, name, ready, *command, **environment):
        """Starts what `obey` can kill, and returns the check of whether it is ready."""
        is_ready = ready()
        self.parts[name] = (command, environment, self.start(*command, **environment), ready)
        return is_ready

    def obey(self, order, name):
        """Kills a part and all that it started, as a crash of its machine does, or starts it again."""
        command, environment, process, ready = self.parts[name]
        if order == "kill":
            # Each part has a session of its own, in which tasks make groups of theirs.
            while pids := list(session_of(process.pid)):
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(0.01)
            process.wait()
            self.processes.remove(process)
        else:
            self.wait_for(self.start_part(name, ready, *command, **environment))

    def run(self, *command, **environment):
        """Runs a command to its end."""
        process = self.start(*command, **environment)
        if process.wait():
            raise SystemExit(f"{command[0]} ended with {process.returncode}: {self.folder / 'log'}")
        self.processes.remove(process)

    def wait_for(self, ready):
        deadline = time.monotonic() + PATIENCE
        while not ready():
            for process in self.processes:
                if process.poll() is not None:
                    raise SystemExit(f"{process.args[0]} ended with {process.returncode}: {self.folder / 'log'}")
            if time.monotonic() > deadline:
                raise SystemExit(f"the engine is not ready after {PATIENCE} s: {self.folder / 'log'}")
            time.sleep(0.05)

    def stop(self):
        # All that it started, at any depth: see main.
        children = Path(f"/proc/self/task/{os.getpid()}/children")
        while pids := children.read_text().split():
            for pid in pids:
                os.kill(int(pid), signal.SIGKILL)
            os.wait()
        shutil.rmtree(self.folder / "postgres", ignore_errors=True)


def answers(url):
    def ready():
        try:
            return urllib.request.urlopen(url, timeout=5).status == 200
        except OSError:
            return False
    return ready


def temporal(engine, target):
    grpc, http, metrics = free_ports(3)
    bin_folder = target / "temporal" / "bin"
    engine.start(bin_folder / "temporal", "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", grpc,
                 "--http-port", http, "--metrics-port", metrics, "--db-filename", engine.folder / "temporal.db",
                 "--log-level", "error")
    # The namespace is known to the parts of the server one after another: a list needs all that a start needs.
    engine.wait_for(answers(f"http://127.0.0.1:{http}/api/v1/namespaces/default/workflows?pageSize=1"))
    mark = engine.folder / "worker.ready"
    engine.start(bin_folder / "python", "-B", Path(__file__).parent / "worker.py", f"127.0.0.1:{grpc}", engine.folder)
    engine.wait_for(mark.exists)
    return http


def dagu(engine, target):
    port, coordinator = free_ports(2)
    (engine.folder / "dags").mkdir(exist_ok=True)
    program = target / "dagu" / "node_modules" / "@dagu-org" / "dagu-linux-x64" / "bin" / "dagu"
    engine.start(program, "start-all", "--host", "127.0.0.1", "--port", port, "--coordinator.port", coordinator,
                 DAGU_HOME=str(engine.folder), DAGU_DAGS_DIR=str(engine.folder / "dags"))
    engine.wait_for(answers(f"http://127.0.0.1:{port}/api/v2/health"))
    return port


def postgres(engine):
    """Starts a database server, and returns the command that queries it, and its address."""
    (port,) = free_ports(1)
    data, programs = engine.folder / "postgres", max(Path("/usr/lib/postgresql").glob("*/bin"))
    data.mkdir()
    as_user = []
    if os.geteuid() == 0:
        # It refuses to run as root.
        engine.folder.chmod(0o711)
        shutil.chown(data, "nobody", "nogroup")
        as_user = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]
    engine.run(*as_user, programs / "initdb", "--pgdata", data, "--username", "airflow", "--auth", "trust", "--encoding",
               "UTF8", "--locale", "C", "--no-sync")
    engine.start(*as_user, programs / "postgres", "-D", data, "-k", data, "-p", port, "-c", "listen_addresses=127.0.0.1",
                 "-c", "fsync=off", "-c", "max_connections=300")
    address = f"postgresql://airflow@127.0.0.1:{port}/postgres"
    query = [programs / "psql", address, "-tAc"]
    engine.wait_for(lambda: subprocess.run([*query, "select"], capture_output=True).returncode == 0)
    return query, address


def airflow(engine, target):
    """Starts an API server, a scheduler and a processor of DAGs, over PostgreSQL. Over SQLite, the API server waits for
    its own lock."""
    (port,) = free_ports(1)
    folder, bin_folder = engine.folder, target / "airflow" / "bin"
    (folder / "dags").mkdir(exist_ok=True)
    shutil.copy(Path(__file__).parent / "dags.py", folder / "dags")
    query, database = postgres(engine)
    (folder / "passwords.json").write_text(json.dumps({"bridge": "secret"}))
    settings = {
        "AIRFLOW_HOME": folder,
        "AIRFLOW__CORE__DAGS_FOLDER": folder / "dags",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": False,
        "AIRFLOW__CORE__LOAD_EXAMPLES": False,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database.replace("://", "+psycopg2://"),
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": 6,
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "bridge:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": folder / "passwords.json",
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "AIRFLOW__API__SECRET_KEY": secrets.token_hex(32),
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": 3,
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": 600,
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": 0.5,
        "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK": False,
        # Without them, a busy machine loses tasks that run.
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": 1800,
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": 60,
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": False,
    }
    settings = {name: str(value) for name, value in settings.items()}
    settings |= {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW__")}
    command = [bin_folder / "python", "-B", bin_folder / "airflow"]
    engine.run(*command, "db", "migrate", **settings)
    count_schedulers = [*query, "select count(*) from job where job_type = 'SchedulerJob'"]

    def scheduler_registers():
        before = subprocess.check_output(count_schedulers)
        return lambda: subprocess.check_output(count_schedulers) != before

    is_ready = engine.start_part("api-server", lambda: answers(f"http://127.0.0.1:{port}/api/v2/version"), *command,
                                 "api-server", "--host", "127.0.0.1", "--port", port, "--workers", 1, **settings)
    # Their servers of logs would listen on every interface.
    engine.start_part("scheduler", scheduler_registers, *command, "scheduler", "--skip-serve-logs", **settings)
    engine.start(*command, "dag-processor", **settings)
    engine.wait_for(is_ready)
    # A DAG can be started once it is parsed.
    count = [*query, "select count(*) from dag where not is_stale"]
    engine.wait_for(lambda: int(subprocess.check_output(count)) >= 7)
    login = json.dumps({"username": "bridge", "password": "secret"}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/auth/token", login, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
        (folder / "token").write_text(json.load(reply)["access_token"])
    return port


def pygeoapi(engine, target):
    (port,) = free_ports(1)
    folder, bin_folder, here = engine.folder, target / "pygeoapi" / "bin", Path(__file__).parent
    for name in ["starts", "results"]:
        (folder / name).mkdir()
    base = f"http://127.0.0.1:{port}"
    names = ["Greet", "Refuse", "Wait", "Plain", "Sync"]
    config = {
        "server": {
            "bind": {"host": "127.0.0.1", "port": port}, "url": base, "mimetype": "application/json; charset=UTF-8",
            "encoding": "utf-8", "languages": ["en-US"], "map": {"url": base, "attribution": "none"},
            "limits": {"default_items": 2, "max_items": 1000},
            "manager": {"name": "TinyDB", "connection": str(folder / "jobs.db"), "output_dir": str(folder / "results")},
        },
        "logging": {"level": "ERROR"},
        "metadata": {
            "identification": {"title": "test", "description": "test", "keywords": ["test"],
                               "keywords_type": "theme", "terms_of_service": base, "url": base},
            "license": {"name": "none", "url": base}, "provider": {"name": "test", "url": base},
            "contact": {"name": "test", "position": "test"},
        },
        "resources": {name.lower(): {"type": "process", "processor": {"name": f"processes.{name}"}} for name in names},
    }
    # YAML is a superset of JSON.
    (folder / "config.yml").write_text(json.dumps(config))
    settings = {"PYGEOAPI_CONFIG": str(folder / "config.yml"), "PYGEOAPI_OPENAPI": str(folder / "openapi.yml"),
                "PYTHONPATH": str(here), "PYTHONDONTWRITEBYTECODE": "1", "STARTS": str(folder / "starts")}
    engine.run(bin_folder / "pygeoapi", "openapi", "generate", folder / "config.yml", "--output-file",
               folder / "openapi.yml", **settings)
    engine.start(bin_folder / "flask", "--app", "pygeoapi.flask_app:APP", "run", "--host", "127.0.0.1", "--port", port,
                 **settings)
    engine.wait_for(answers(f"{base}/processes?f=json"))
    return port


def main():
    name, target, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    # A process whose parent has ended becomes a child of this one.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    engine = Engine(folder)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        port = {"temporal": temporal, "dagu": dagu, "airflow": airflow, "pygeoapi": pygeoapi}[name](engine, target)
        print(f"ready {port}", flush=True)
        for line in sys.stdin:
            engine.obey(*line.split())
            print("ok", flush=True)
    finally:
        engine.stop()


if __name__ == "__main__":
    main()
