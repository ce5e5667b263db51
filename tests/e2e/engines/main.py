"""Makes calls by third-party clients to a bridge over a real engine, or a stand-in for one, while the bridge is killed
and replies of the engine are lost, and then counts at the engine what was started. Over some engines there are two bridges, with one
store.

    main.py ENGINE --packages FOLDER --installed FOLDER --server PROGRAM --work FOLDER [--calls N] [--kills N] [--seed N]

Exits with 1 unless each accepted call has one job and the result of that job.
"""

import argparse
import os
import queue
import random
import sys
import threading
import time
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "table"))

from airflow import Airflow  # noqa: E402
from bridge import Bridge, free_port  # noqa: E402
from callers import SPEAKERS, Caller, Calls  # noqa: E402
from dagu import Dagu  # noqa: E402
from github_actions import GithubActions  # noqa: E402
from google_workflows import GoogleWorkflows  # noqa: E402
from http_engine import HttpEngine  # noqa: E402
from jobs import Verdict, judge  # noqa: E402
from ogc import Ogc  # noqa: E402
from rows import Place  # noqa: E402
from slurm import Slurm  # noqa: E402
from slurm_ends import SlurmEnds  # noqa: E402
from slurm_rest import SlurmRest  # noqa: E402
from step_functions import StepFunctions  # noqa: E402
from temporal import Temporal  # noqa: E402
from wes import Wes  # noqa: E402

Engine = StepFunctions | GithubActions | Slurm | HttpEngine
ENGINES: dict[str, type[Engine]] = {
    "step-functions": StepFunctions,
    "github-actions": GithubActions,
    "slurm": Slurm,
    "slurm-ends": SlurmEnds,
    "slurm-rest": SlurmRest,
    "temporal": Temporal,
    "airflow": Airflow,
    "dagu": Dagu,
    "ogc": Ogc,
    "wes": Wes,
    "google-workflows": GoogleWorkflows,
}
# How long a bridge that was killed holds its jobs; half of it is the limit of a call of the engine. And how soon a job is
# polled again, at first and later. An engine whose answers take longer has its own.
PACE = {"lease": "6s", "quickest": "200ms", "slowest": "2s"}
# How long the moment is waited for that a kill is aimed at.
PATIENCE = 4
# For how long an account is throttled.
THROTTLED = 3

CONFIG = """
[server]
listen = "127.0.0.1:{port}"
max_polls_per_second = 1000
# Each call is answered with a task, however soon its job ends.
quick_wait = "0s"

[auth]
single_user = true

[lifetime]
min_ttl = "1h"

[reconciler]
lease = "{lease}"
quickest_look = "{quickest}"
slowest_look = "{slowest}"

"""


def strike(bridges: list[Bridge], engine: Engine, calls: Calls, kills: int, dice: random.Random) -> None:
    """Kills a bridge at random moments, every second time between its call of the engine and the reply; and once has
    the engine refuse everything for a while."""
    # The last calls have time to end well, so that no kill comes too late.
    steps = sorted(dice.randrange(9 * len(calls.all) // 5) for _ in range(kills))
    throttle_at = dice.randrange(max(kills, 1))
    for number, step in enumerate(steps):
        aimed, pause, after = dice.choice(engine.moments), 1.5 * dice.random(), 1.5 * dice.random()
        proxy = dice.choice(list(engine.proxies.values()))
        if not calls.wait_for(step):
            return
        if number == throttle_at:
            throttle(engine)
        bridge = bridges[number // 2 % len(bridges)]
        if number % 2:
            struck: queue.Queue[Bridge] = queue.Queue()

            def kill(port: int) -> None:
                caller = next((one for one in bridges if one.calls_from(port)), bridge)
                caller.kill()
                struck.put(caller)

            proxy.at_next(aimed, kill)
            try:
                bridge = struck.get(timeout=PATIENCE)
                calls.aimed += 1
            except queue.Empty:
                if proxy.give_up():
                    # Where the moment does not come, any other will do.
                    bridge.kill()
                else:
                    bridge = struck.get()
                    calls.aimed += 1
        else:
            time.sleep(after)
            bridge.kill()
        calls.kills.append(time.time())
        bridge.start_again(pause)


def throttle(engine: Engine) -> None:
    for proxy in engine.proxies.values():
        proxy.throttled = True
    time.sleep(THROTTLED)
    for proxy in engine.proxies.values():
        proxy.throttled = False


def report(verdict: Verdict, calls: Calls, engine: Engine, bridges: list[Bridge], began: float) -> None:
    lost: Counter[str] = sum((proxy.lost for proxy in engine.proxies.values()), Counter())
    asked: Counter[str] = sum((proxy.asked for proxy in engine.proxies.values()), Counter())
    refused = sum(proxy.refused for proxy in engine.proxies.values())
    works = {work.name for work in engine.works}
    figures = [
        (verdict.accepted, f"calls accepted, of {len(works)} kinds, by {len(SPEAKERS)} clients"),
        (verdict.attempts - verdict.accepted, "starts that the bridge did not live to answer, made again"),
        (verdict.jobs, "jobs in the engine"),
        (lives(bridges), f"kills of one of {len(bridges)} bridges (-9), {calls.aimed} of them between a call of the engine and its reply"),
        (calls.cut, "requests of clients that a kill cut off"),
        (sum(asked.values()), "calls of the engine's API"),
        (sum(lost.values()), f"replies of it lost: {', '.join(f'{n} {name}' for name, n in lost.most_common() if n)}"),
        (refused, "calls of it refused: throttled"),
        *engine.faults(),
        (len(verdict.uncertain), "calls that ended as uncertain, and say so"),
        (len(verdict.doubles), "doubles"),
        (len(verdict.lost), "lost"),
        (len(verdict.strays), "jobs of no call"),
        (len(verdict.wrong), "wrong"),
    ]
    for number, what in figures:
        print(f"{number:6} {what}")
    print(f"{time.monotonic() - began:6.0f} s")
    for fault in (*verdict.doubles, *verdict.lost, *verdict.strays, *verdict.wrong):
        print(f"FAILED {fault}")


def lives(bridges: list[Bridge]) -> int:
    return sum(bridge.life for bridge in bridges)


def main() -> int:
    parser = argparse.ArgumentParser(description="Real clients, a bridge that is killed, an engine that loses replies.")
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--installed", type=Path, required=True, help="where tests/run puts what it installs")
    parser.add_argument("--server", type=Path, required=True, help="the program of taskbridge")
    parser.add_argument("--work", type=Path, required=True, help="an empty folder for states and a log")
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    work = options.work.absolute()
    began = time.monotonic()
    print(f"{options.engine}: {options.calls} calls, {options.kills} kills, seed {options.seed}", flush=True)
    with (work / "log").open("ab") as log:
        place = Place(options.packages.absolute(), options.server.absolute(), work, log)
        engine = ENGINES[options.engine](options.installed.absolute(), work, log, options.seed)
        try:
            verdict = run(options, place, engine, began)
        finally:
            engine.stop()
    return 0 if verdict.holds else 1


def run(options: argparse.Namespace, place: Place, engine: Engine, began: float) -> Verdict:
    env = {**os.environ, "XDG_STATE_HOME": str(place.work / "state")}
    bridges = [start(place, engine, env, name) for name in ("one", "two")[: engine.bridges]]
    engine.post_to([bridge.hooks for bridge in bridges])
    calls = Calls(engine.works, options.calls)
    # Each bridge has clients of both generations.
    callers = [Caller(client, place, env, bridges[at // 2 % len(bridges)], calls) for at, client in enumerate(SPEAKERS)]
    scripted = (bridges, engine, calls, options.kills, random.Random(options.seed))
    striker = threading.Thread(target=strike, args=scripted)
    for thread in (*callers, striker):
        thread.start()
    for thread in callers:
        thread.join()
    calls.end()
    striker.join()
    print("clients: " + "; ".join(f"{caller.library} ({caller.name.rpartition(' ')[2]})" for caller in callers))
    verdict = judge(calls.all, list(engine.jobs()))
    verdict.wrong += engine.complaints(calls, verdict)
    lost = sum(proxy.lost.total() for proxy in engine.proxies.values())
    if lives(bridges) < options.kills or (options.kills and not lost):
        verdict.wrong.append("less broke than was to: make more calls")
    verdict.wrong += [f"no {what}: make more calls" for number, what in engine.faults() if not number]
    report(verdict, calls, engine, bridges, began)
    for bridge in bridges:
        bridge.stop()
    return verdict


def start(place: Place, engine: Engine, env: dict[str, str], name: str) -> Bridge:
    port = free_port()
    config = place.work / f"{name}.toml"
    config.write_text(CONFIG.format(port=port, **getattr(engine, "pace", PACE)) + engine.config())
    return Bridge(place.server, config, port, env, place.log)


if __name__ == "__main__":
    sys.exit(main())
