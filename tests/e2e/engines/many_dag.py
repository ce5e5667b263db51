"""The DAG of many_dag_runs.py: its runs are all in progress, and a few of their tasks run."""

import time

from airflow.sdk import dag, task


@dag(schedule=None, max_active_runs=5000, max_active_tasks=4)
def wait():
    @task
    def result() -> None:
        time.sleep(36_000)

    result()


wait()
