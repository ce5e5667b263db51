"""What the tests of the example adapters share: a Redis of their own, and processes that are stopped at the end."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from taskbridge_adapter.testing import SECONDS, Program, fresh_key, spec, state_of

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "adapters"
# The program whose behaviour suite is run, and how many of its rules at least must be tested.
TASKBRIDGE = os.environ.get("TASKBRIDGE") or None
LEAST_RULES = 18
# The secret of the services that are tested.
SIGNING_SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
# Below the ports that the kernel gives to outgoing connections.
PORTS = range(20_000, 32_000)


def until(what, happens, seconds=SECONDS):
    """Waits until it happens, and returns what it then is."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := happens():
            return found
        time.sleep(0.02)
    raise TimeoutError(f"did not happen in {seconds} s: {what}")


class Processes:
    """Processes in sessions of their own, all of which are killed at the end."""

    def __init__(self, folder):
        self.folder, self._all, self._logs, self._over = Path(folder), [], [], False

    def start(self, name, *command, again=False, **options):
        """Starts a program whose output goes to a file. With `again`, it is started again whenever it ends."""
        log = open(self.folder / f"{name}.log", "ab")
        self._logs.append(log)
        options = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "start_new_session": True} | options
        process = subprocess.Popen(list(map(str, command)), **options)
        self._all.append(process)
        if again:
            threading.Thread(target=self._supervise, args=(process, command, options), daemon=True).start()
        return process

    def _supervise(self, process, command, options):
        while not self._over:
            process.wait()
            if not self._over:
                process = subprocess.Popen(list(map(str, command)), **options)
                self._all.append(process)

    def stop(self):
        self._over = True
        for process in self._all:
            end(process)
        for log in self._logs:
            log.close()


def end(process):
    """Kills a process and its group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait(SECONDS)


class RedisServer:
    """A Redis that keeps what it has on disk, on a free port of 127.0.0.1."""

    def __init__(self, processes):
        self._processes, self.process = processes, None
        for self.port in random.sample(PORTS, 50):
            with socket.socket() as free:
                try:
                    free.bind(("127.0.0.1", self.port))
                except OSError:
                    continue
            if self.start():
                return
        raise RuntimeError("redis-server does not start")

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self):
        """Returns whether it answers."""
        folder = self._processes.folder / "redis"
        folder.mkdir(exist_ok=True)
        self.process = self._processes.start(
            "redis",
            "redis-server",
            "--bind",
            "127.0.0.1",
            "--port",
            self.port,
            "--dir",
            folder,
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
            "--save",
            "",
        )

        def answers():
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                    connection.sendall(b"PING\r\n")
                    return connection.recv(100).startswith(b"+PONG")
            except OSError:
                return self.process.poll() is not None

        until("redis answers", answers)
        return self.process.poll() is None

    def kill(self):
        end(self.process)


def toml(table):
    """Returns the lines of a table: its values, then its tables."""
    for name, value in table.items():
        if not isinstance(value, dict):
            yield f"{name} = {json.dumps(value)}"
    for name, value in table.items():
        if isinstance(value, dict):
            yield f"[{name}]"
            yield from (f"{key} = {inline(each)}" for key, each in value.items())


def inline(value):
    """Returns a value as TOML, where an object is an inline table."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {inline(each)}" for name, each in value.items()) + "}"
    return json.dumps(value)


class AdapterTest:
    """Base of test classes: a Redis, workers and the adapter, made once. Subclasses start workers in `begin`, which returns
    the command of the adapter and its config."""

    # How the adapter is started: more arguments of `subprocess.Popen`.
    options = {}

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tb-adapter-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.processes = Processes(folder.name)
        cls.addClassCleanup(cls.processes.stop)
        cls.command, cls.config = cls.begin()

    # The jobs of `taskbridge adapter test`, in the shape of its file: `succeeding`, `failing`, `long` and others.
    plan = None

    def setUp(self):
        self.program = self.adapter()

    def test_adapter_keeps_the_contract(self):
        """The behaviour suite of the sdk, over the wire, as an author of an adapter runs it."""
        if self.plan is None or TASKBRIDGE is None:
            self.skipTest("tests/adapters/run suite names a taskbridge")
        self.check_contract(self.plan, "--", *self.command)

    def check_contract(self, plan, *command):
        file = self.folder / "plan.toml"
        # Machines that run tests are busy.
        whole = {"timeout_seconds": 2 * SECONDS} | plan | {"config": self.config}
        file.write_text("".join(f"{line}\n" for line in toml(whole)))
        command = [TASKBRIDGE, "adapter", "test", "--config", file, *command]
        done = subprocess.run(
            list(map(str, command)), capture_output=True, text=True, check=False, timeout=1500, **self.options
        )
        kept = sum(line.startswith("ok ") for line in done.stdout.splitlines())
        self.assertTrue(done.returncode == 0 and kept >= LEAST_RULES, f"{done.stdout}{done.stderr}")

    # The folder, the module and the class of the adapter, where it is tested as a service, too.
    service = None

    def test_service_keeps_the_contract(self):
        """The same suite over HTTP, with signed messages."""
        if self.service is None or TASKBRIDGE is None:
            self.skipTest("tests/adapters/run suite names a taskbridge")
        folder, module, name = self.service
        program = f"""
import sys
sys.path.insert(0, {str(folder)!r})
from {module} import {name}
from taskbridge_adapter import serve_http
serve_http({name}, port=0, hmac={SIGNING_SECRET!r})
"""
        log = self.folder / "service.log"
        self.processes.start("service", PYTHON, "-B", "-c", program)
        listens = until("the service listens", lambda: log.exists() and re.search(r"http://\S+", log.read_text()))
        service = {"url": listens.group(), "auth": {"hmac": SIGNING_SECRET}}
        self.check_contract(self.plan | {"service": service})

    # Calls of the run with kills of the adapter, and how many of its starts are cut off.
    calls, kills = 16, 4

    def runs(self, label):
        """Returns how often a job with this label began, as the engine or the job itself counted."""
        raise NotImplementedError

    def test_killed_adapter_doubles_nothing(self):
        """The adapter is killed while starts are under way, and a start is made again as the server does it."""
        dice, job = random.Random(1), self.plan["succeeding"]
        killed = set(dice.sample(range(self.calls), self.kills))
        handles = {}
        for number in range(self.calls):
            key, label = fresh_key(), f"call-{number}"
            params = spec(job["target"], job["arguments"] | {"label": label}, key)
            future = self.program.begin("start", params)
            if number in killed:
                # At any moment of the call: some are before it, and some are after it.
                time.sleep(dice.random() * 0.02)
                self.program.kill()
                self.program = self.adapter()
                handles[label] = self.start_again(params)
            else:
                handles[label] = future.result(SECONDS)["handle"]
        for label, handle in handles.items():
            if handle:
                self.assert_state(self.program.wait(handle), "succeeded")
                self.assertEqual(self.runs(label), 1, label)

    def start_again(self, params):
        """Makes a start again whose reply was lost. Returns `None` where nobody can say whether there is a job."""
        if self.program.initialized["once"] == "key":
            return self.program.call("start", params | {"may_exist": True})["handle"]
        found = self.program.call("find", params | {"may_exist": True})
        return found and found["handle"]

    def adapter(self):
        """Starts the adapter, as another process of its kind."""
        log = open(self.folder / "adapter.log", "ab")
        self.addCleanup(log.close)
        program = Program(self.command, self.config, stderr=log, **self.options)
        self.addCleanup(lambda: program.kill() if program.process.poll() is None else None)
        return program

    def tearDown(self):
        if self._outcome and not self._outcome.success:
            for log in sorted(self.folder.glob("*.log")):
                print(
                    f"---- {log.name}", *log.read_text(errors="replace").splitlines()[-30:], sep="\n", file=sys.stderr
                )

    def assert_state(self, seen, state):
        self.assertEqual(state_of(seen), state, seen)


PYTHON = sys.executable
