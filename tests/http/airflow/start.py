"""Starts Airflow over PostgreSQL, with the DAGs of dags.py.

Its parts `api-server` and `scheduler` can be killed. Settings in the environment (`AIRFLOW__..`) go before its own.
"""

import json
import os
import secrets
import shutil
import subprocess
import urllib.request
from pathlib import Path

from engine import PATIENCE, answers, free_ports
from postgres import postgres


def start(engine, target):
    """Starts an API server, a scheduler and a processor of DAGs, over PostgreSQL. Over SQLite, the API server waits for
    its own lock."""
    (port,) = free_ports(1)
    folder, bin_folder = engine.folder, target / "bin"
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
