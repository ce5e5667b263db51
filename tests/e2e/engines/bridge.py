"""The real server as a process that can be killed and started again at the same address."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

from peer import SECONDS, Failed

sys.path.append(str(Path(__file__).resolve().parents[2]))

from ports import free_port as free_port  # noqa: E402


class Bridge:
    """`life` counts how often it was killed: whoever connected in another life has lost that connection."""

    def __init__(self, program: Path, config: Path, port: int, env: dict[str, str], log: IO[bytes]) -> None:
        self.url = f"http://127.0.0.1:{port}/mcp"
        self.hooks = f"http://127.0.0.1:{port}/hooks"
        self.life = 0
        self.runs = threading.Event()
        self._command = [str(program), "serve", "--config", str(config)]
        self._env = env
        self._log = log
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._command, env=self._env, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        assert self._process.stdout
        for line in self._process.stdout:
            if self.url in line:
                self.runs.set()
                return
        raise Failed(f"the bridge ended with exit code {self._process.wait()}")

    @property
    def pid(self) -> int:
        return self._process.pid

    def calls_from(self, port: int) -> bool:
        """Whether it has a connection from this port of 127.0.0.1."""
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
        sockets = {f"socket:[{fields[9]}]" for fields in lines if fields[1] == f"0100007F:{port:04X}"}
        return any(os.path.realpath(file).rpartition("/")[2] in sockets for file in Path(f"/proc/{self.pid}/fd").glob("*"))

    def kill(self) -> None:
        """As `kill -9` does."""
        self.runs.clear()
        self.life += 1
        self._process.send_signal(signal.SIGKILL)

    def start_again(self, pause: float) -> None:
        self._process.wait(SECONDS)
        time.sleep(pause)
        self._start()

    def stop(self) -> None:
        self._process.terminate()
        code = self._process.wait(SECONDS)
        if code != 0:
            raise Failed(f"the bridge stopped with exit code {code}")
