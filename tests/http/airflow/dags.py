"""The DAGs of the tests that run against Airflow. Each run records its start: starts/RUN_ID."""

import os
import time
from datetime import timedelta
from pathlib import Path

from airflow.providers.standard.operators.hitl import HITLEntryOperator, HITLOperator
from airflow.sdk import BaseOperator, Param, dag, get_current_context, task

STARTS = Path(os.environ["AIRFLOW_HOME"]) / "starts"


def record() -> None:
    """Records the run."""
    STARTS.mkdir(exist_ok=True)
    with (STARTS / get_current_context()["run_id"]).open("a") as file:
        file.write("started\n")


@dag(schedule=None, tags=["mcp"], description="Says hello.",
     params={"who": Param("world", type="string", maxLength=40, description="Whom to greet."),
             "times": Param(1, type="integer", minimum=1)})
def greet():
    @task
    def result(params: dict) -> dict:
        record()
        return {"said": " ".join([f"hello {params['who']}"] * params["times"])}

    result()


@dag(schedule=None)
def fail():
    @task
    def result() -> None:
        record()
        raise RuntimeError("out of luck")

    result()


@dag(schedule=None, dagrun_timeout=timedelta(hours=1))
def sleep():
    @task
    def result() -> None:
        record()
        time.sleep(600)

    result()


class Show(BaseOperator):
    """Prints lines. A function with `@task` logs its return value as well, before or after them."""

    def execute(self, context):
        record()
        print("first line\nsecond line\nthird line")


@dag(schedule=None)
def show():
    Show(task_id="result")


@dag(schedule=None)
def ask():
    gate = HITLOperator(task_id="gate", subject="Ship it?", body="The tests are green.", options=["yes", "no"])

    @task
    def result(answer: dict) -> dict:
        record()
        return {"chosen": answer["chosen_options"]}

    result(gate.output)


@dag(schedule=None)
def enter():
    gate = HITLEntryOperator(
        task_id="gate", subject="What is shipped?",
        params={"version": Param("1.0", type="string", minLength=2, description="Such as 1.2."),
                "copies": Param(1, type="integer")})

    @task
    def result(answer: dict) -> dict:
        record()
        return answer["params_input"]

    result(gate.output)


@dag(schedule=None, is_paused_upon_creation=True)
def asleep():
    @task
    def result() -> None:
        record()

    result()


greet()
fail()
sleep()
show()
ask()
enter()
asleep()
