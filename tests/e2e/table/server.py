"""A server over HTTP, for as long as a row of the table needs it."""

import subprocess
from typing import IO

from peer import SECONDS, Failed


class Server:
    """Listens on a free port of this machine; `url` is what it printed."""

    def __init__(self, command: list[str], env: dict[str, str], log: IO[bytes]) -> None:
        self._process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout
        for line in self._process.stdout:
            if "http://127.0.0.1:" in line:
                self.url = next(word for word in line.replace('"', " ").split() if word.startswith("http://127.0.0.1:"))
                return
        raise Failed(f"the server ended with exit code {self._process.wait()}")

    def stop(self) -> None:
        self._process.terminate()
        code = self._process.wait(SECONDS)
        if code != 0:
            raise Failed(f"the server stopped with exit code {code}")
