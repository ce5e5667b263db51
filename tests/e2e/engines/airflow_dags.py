"""The DAGs of the run over Airflow. Each try of a task that was called with a label records itself: starts/RUN_ID."""

import os
import time
from datetime import timedelta
from pathlib import Path

from airflow.providers.standard.operators.hitl import HITLEntryOperator
from airflow.sdk import Param, dag, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

STARTS = Path(os.environ["AIRFLOW_HOME"]) / "starts"
# A task whose scheduler is killed runs again: that must not fail its run.
AGAIN = {"retries": 5, "retry_delay": timedelta(seconds=1)}


def record() -> dict:
    """Records the try, and returns what the run was called with."""
    STARTS.mkdir(exist_ok=True)
    context = get_current_context()
    with (STARTS / context["run_id"]).open("a") as file:
        file.write("started\n")
    return dict(context["dag_run"].conf)


@dag(schedule=None, default_args=AGAIN)
def call_greet():
    @task
    def result() -> dict:
        return {**record(), "said": "hello world"}

    result()


@dag(schedule=None, default_args=AGAIN)
def call_later():
    @task
    def result() -> dict:
        given = record()
        time.sleep(2)
        return given

    result()


@dag(schedule=None, default_args=AGAIN)
def call_fail():
    @task
    def result() -> None:
        record()
        raise AirflowFailException("out of luck")

    result()


@dag(schedule=None, default_args=AGAIN)
def call_sleep():
    @task
    def result() -> None:
        record()
        time.sleep(900)

    result()


@dag(schedule=None, default_args=AGAIN)
def call_ask():
    gate = HITLEntryOperator(
        task_id="gate", subject="What is your name?", params={"name": Param("nobody", type="string")})

    @task
    def result(answer: dict) -> dict:
        return {**record(), "answer": answer["params_input"]}

    result(gate.output)


call_greet()
call_later()
call_fail()
call_sleep()
call_ask()
