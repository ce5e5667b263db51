#!/usr/bin/env python3
"""Has the programs of MCP clients read what `taskbridge connect` writes, and connect to the server with it.

    tests/connect/check.py FOLDER TASKBRIDGE

Each client connects over stdio, over HTTP, and over HTTP with an API key from a variable. Everything is written below a
temporary folder. It must not reach another machine.
"""

import contextlib
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DEMO = ROOT / "src/cli/setup/init/demo.toml"
KEY = "tb_connect_test_key"
# How long a program may take, in seconds.
TIMEOUT = 180


class Client:
    """A home and a project of its own, in which `taskbridge connect` writes and a client's program reads."""

    def __init__(self, folder, programs, taskbridge):
        self.home, self.project = folder / "home", folder / "project"
        self.home.mkdir()
        self.project.mkdir()
        self.programs, self.taskbridge = programs, taskbridge
        self.config = folder / "taskbridge.toml"
        self.config.write_text(DEMO.read_text())
        self.environment = {
            "HOME": str(self.home), "PATH": f"{programs}/node-linux-{cpu()}/bin:{os.environ['PATH']}", "TMPDIR": str(folder), "TASKBRIDGE_KEY": KEY,
            "NO_COLOR": "1",
            # Nothing but the connection to the server.
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
            # Claude Code waits so long for a server, in milliseconds.
            "MCP_TIMEOUT": str(TIMEOUT * 1000 // 2),
        }

    def run(self, *command, **options):
        result = subprocess.run(command, env=self.environment, cwd=self.project, capture_output=True, text=True,
                                timeout=TIMEOUT, stdin=subprocess.DEVNULL, **options)
        if result.returncode != 0:
            sys.exit(f"FAILED: {command}: exit code {result.returncode}\n{result.stdout}{result.stderr}")
        return result

    def connect(self, name, scope, address):
        self.run(self.taskbridge, "connect", name, "--scope", scope, *(address or ["--config", self.config]), "--write")


def claude_code(client, address):
    program = client.programs / f"@anthropic-ai/claude-code-linux-{cpu()}/claude"
    client.connect("claude-code", "user", address)
    said = client.run(program, "mcp", "get", "taskbridge").stdout
    assert "Connected" in said and "User config" in said, said
    # A project's servers are started once a person has approved them; until then they are listed.
    client.run(program, "mcp", "remove", "taskbridge", "-s", "user")
    client.connect("claude-code", "project", address)
    said = client.run(program, "mcp", "list").stdout
    assert "taskbridge" in said and "Pending approval" in said, said


def codex(client, address):
    """The server of Codex's editors lists the tools of MCP servers, for which it connects to them."""
    client.connect("codex", "user", address)
    with (client.home / ".codex/config.toml").open("a") as file:
        file.write(f"startup_timeout_sec = {TIMEOUT // 2}\n")
    messages = [
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "test", "title": "test", "version": "1"}}},
        {"method": "initialized"},
        {"id": 2, "method": "mcpServerStatus/list", "params": {}},
    ]
    program = client.programs / ".bin/codex"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen([program, "app-server"], env=client.environment, cwd=client.project, **pipes) as server:
        watch = threading.Timer(TIMEOUT, server.kill)
        watch.start()
        try:
            for message in messages:
                server.stdin.write(json.dumps(message) + "\n")
                server.stdin.flush()
                while "id" in message and json.loads(line := server.stdout.readline()).get("id") != message["id"]:
                    pass
        finally:
            watch.cancel()
            server.stdin.close()
            server.terminate()
    (status,) = json.loads(line)["result"]["data"]
    assert status["name"] == "taskbridge" and "count_stars" in status["tools"], line


def gemini(client, address):
    trusted = client.home / ".gemini/trustedFolders.json"
    trusted.parent.mkdir(exist_ok=True)
    trusted.write_text(json.dumps({str(client.project): "TRUST_FOLDER"}))
    for scope, file in (("user", client.home), ("project", client.project)):
        client.connect("gemini", scope, address)
        said, ends = "", time.monotonic() + TIMEOUT
        # It waits 5 s for a server, which cannot be set: a busy machine may need longer to start one.
        while "Disconnected" in said or not said:
            assert time.monotonic() < ends, said
            result = client.run(client.programs / ".bin/gemini", "mcp", "list")
            said = result.stdout + result.stderr
        assert "✓ taskbridge" in said and "Connected" in said, said
        (file / ".gemini/settings.json").unlink()


def inspector(client, address):
    client.connect("inspector", "project", address)
    call = ["--method", "tools/call", "--tool-name", "count_stars", "--tool-arg", "delay_ms=100"]
    said = client.run(client.programs / ".bin/mcp-inspector", "--cli", "--config", "mcp.json", "--server", "taskbridge", *call).stdout
    assert json.loads(said)["structuredContent"] == {"stars": 40}, said


def cpu():
    return {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]


@contextlib.contextmanager
def served(client, text):
    """Serves a config, and yields the address."""
    file = client.config.with_name("served.toml")
    file.write_text(text)
    command = [client.taskbridge, "serve", "--config", file, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, env=client.environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            line = server.stdout.readline()
            yield next(word for word in line.split() if word.startswith("http://"))
        finally:
            server.terminate()


def main():
    programs, taskbridge = Path(sys.argv[1]).resolve() / "node_modules", Path(sys.argv[2]).resolve()
    demo = DEMO.read_text()
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    keyed = demo.replace("single_user = true", f'mode = "api_keys"\n[[auth.keys]]\nprincipal = "ann"\nsha256 = "{digest}"')
    for check in (claude_code, codex, gemini, inspector):
        for transport, text in (("stdio", None), ("http", demo), ("key", keyed)):
            # The Inspector has no setting for a key: it is entered in its page.
            if (check, transport) == (inspector, "key"):
                continue
            with tempfile.TemporaryDirectory() as folder:
                client = Client(Path(folder), programs, taskbridge)
                if text is None:
                    check(client, [])
                else:
                    with served(client, text) as url:
                        check(client, ["--url", url, *(["--key"] if transport == "key" else [])])
            print(f"{check.__name__.replace('_', '-')}: {transport}: connected", flush=True)


if __name__ == "__main__":
    main()
