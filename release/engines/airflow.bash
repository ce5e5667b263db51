# Airflow as `airflow standalone` starts it, with one DAG. Sourced by release/clean-engines.

try_airflow() {
    local page=adapters/http/presets/airflow-3.md home=$work/airflow user password
    mkdir -p "$home/dags"
    cat >"$home/dags/report.py" <<DAG
from airflow.sdk import Param, dag, task

@dag(schedule=None, tags=["mcp"], params={"month": Param("2026-01", type="string", description="Which month.")})
def report():
    @task
    def result(params):
        return {"month": params["month"], "lines": 3}
    result()

report()
DAG
    # With its own limits, Airflow loses tasks on a busy machine.
    airflow() {
        env -i PATH="$TARGET/http/airflow/bin:/usr/bin:/bin" HOME="$home" AIRFLOW_HOME="$home" LC_ALL=C.UTF-8 \
            AIRFLOW__CORE__LOAD_EXAMPLES=False AIRFLOW__API__HOST=127.0.0.1 AIRFLOW__CORE__PARALLELISM=2 \
            AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT=60 AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT=1800 "$@"
    }
    airflow airflow standalone >"$home/log" 2>&1 &
    local engine=$!
    wait_a_moment() {
        kill -0 "$engine" 2>/dev/null || fail "Airflow ended: $(tail -n 20 "$home/log")"
        sleep 0.5
    }
    until grep -qs 'standalone | Airflow is ready' "$home/log"; do wait_a_moment; done
    # Airflow pauses what is new. It has run before the newcomer comes: over SQLite, the first run of an Airflow may wait
    # half a minute for a lock.
    until airflow airflow dags unpause report --yes 2>/dev/null | grep -q report; do wait_a_moment; done
    airflow airflow dags trigger report >/dev/null 2>&1
    until grep -q 'Marking run <DagRun report' "$home/log"; do wait_a_moment; done
    grep -q 'Marking run <DagRun report.* successful' "$home/log" || fail "Airflow's own run failed: $(tail -n 20 "$home/log")"
    read -r user password < <(python3 -c 'import json, sys; print(*next(iter(json.load(sys.stdin).items())))' \
        <"$home/simple_auth_manager_passwords.json.generated")
    book_config "$page" | sed -e "s|https://airflow.example.com|http://127.0.0.1:8080|" -e "s|\"bridge\"|\"$user\"|" \
        >"$SHARED/taskbridge.toml"
    begin docs/start/install.md ca-certificates
    steps+=("config|mkdir -p ~/.config/taskbridge && cp $SHARED/taskbridge.toml $CONFIG")
    take password "$page" 'export AIRFLOW_PASSWORD=...' ... "$password"
    take doctor "$page" 'taskbridge doctor'
    newcomer airflow "$page" 'taskbridge call report month=2026-01'
    kill "$engine"
    wait "$engine" || true
}
