"""[`Engine`]: the processes of an engine under test. It must not know which engine."""

import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

from ports import free_ports as free_ports  # noqa: E402

# A busy machine may need this long.
PATIENCE = 600


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
