#!/usr/bin/env python3
"""Installs each package of a release into an empty folder, and runs the main job with it: the demo, and one call.

    release/check.py VERSION OUT TOOLS PLATFORM..

Everything is installed from OUT, without a network. Programs of another architecture run under qemu-user-static. It must
not change the packages.
"""

import json
import os
import platform as machine
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import evidence
from platforms import PLATFORMS

# How long a step may take, in seconds. A busy machine may need most of it.
TIMEOUT = 120
# The demo's tools, for hosts that start the server with a config.
DEMO = evidence.ROOT / "src/cli/setup/init/demo.toml"


def environment(home):
    return {"HOME": str(home), "PATH": os.environ["PATH"], "TMPDIR": str(home)}


def run(*command, home, **options):
    result = subprocess.run(command, env=environment(home), capture_output=True, text=True, timeout=TIMEOUT, **options)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def is_native(platform):
    return platform.name == machine.machine()


def install_archive(out, tools, version, platform, home):
    name = f"taskbridge-{version}-{platform.name}-linux"
    run("tar", "-xzf", out / f"{name}.tar.gz", "-C", home, home=home)
    return [home / name / "bin/taskbridge"]


def install_wheel(out, tools, version, platform, home):
    run(sys.executable, "-m", "venv", home / "venv", home=home)
    wheel = out / f"taskbridge-{version}-py3-none-{'.'.join(platform.wheel)}.whl"
    pip = [home / "venv/bin/pip", "install", "--quiet", "--no-index", "--disable-pip-version-check"]
    if is_native(platform):
        run(*pip, wheel, home=home)
        return [home / "venv/bin/taskbridge"]
    run(*pip, "--only-binary=:all:", "--platform", platform.wheel[0], "--target", home / "target", wheel, home=home)
    return [home / "target/bin/taskbridge"]


def install_npm(out, tools, version, platform, home):
    (home / "package.json").write_text("{}")
    packages = [out / f"taskbridge-{platform.npm}-{version}.tgz", out / f"taskbridge-{version}.tgz"]
    # npm refuses the package of another architecture if it is named by itself, whatever --cpu says.
    options = ["--offline", "--no-audit", "--no-fund", "--silent", *([] if is_native(platform) else ["--force"])]
    run("npm", "install", *options, *packages, home=home, cwd=home)
    if is_native(platform):
        return [home / "node_modules/.bin/taskbridge"]
    # The launcher starts the program of the architecture that Node itself has.
    return [home / f"node_modules/taskbridge-{platform.npm}/bin/taskbridge"]


def install_debian(out, tools, version, platform, home):
    root = home / "root"
    (root / "var/lib/dpkg/info").mkdir(parents=True)
    (root / "var/lib/dpkg/updates").mkdir()
    (root / "var/lib/dpkg/status").touch()
    dpkg = ["dpkg", f"--root={root}", "--force-not-root", "--force-script-chrootless", f"--log={home}/dpkg.log"]
    if not is_native(platform):
        run(*dpkg, "--add-architecture", platform.debian, home=home)
    run(*dpkg, "--install", out / f"taskbridge_{version}_{platform.debian}.deb", home=home)
    for path in ("share/man/man1/taskbridge-call.1.gz", "share/bash-completion/completions/taskbridge", "share/doc/taskbridge/copyright"):
        assert (root / "usr" / path).is_file(), path
    return [root / "usr/bin/taskbridge"]


def install_bundle(out, tools, version, platform, home):
    """As a desktop host does: the bundle is unpacked, and its manifest says what to start."""
    mcpb, folder = tools / "node_modules/.bin/mcpb", home / "bundle"
    run(mcpb, "unpack", out / f"taskbridge-{version}-{platform.name}-linux.mcpb", folder, home=home)
    run(mcpb, "validate", folder / "manifest.json", home=home)
    server = json.loads((folder / "manifest.json").read_text())["server"]
    assert os.access(folder / server["entry_point"], os.X_OK), "the program of the bundle cannot be executed"
    config = home / "taskbridge.toml"
    shutil.copy(DEMO, config)
    values = {"${__dirname}": str(folder), "${user_config.config}": str(config)}

    def filled(text):
        for name, value in values.items():
            text = text.replace(name, value)
        return text

    start = server["mcp_config"]
    command = [filled(start["command"]), *map(filled, start["args"])]
    call_over_stdio(emulated(platform) + command, home)
    run(*emulated(platform), command[0], "check", "--config", folder / "local.toml", home=home)
    return [command[0]]


def emulated(platform):
    """What programs of another architecture are started with."""
    return [] if is_native(platform) else [f"qemu-{platform.name}-static"]


def call_over_stdio(command, home):
    """Calls a tool as a host does that starts the server, and waits for the result."""
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "release", "version": "1"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
         "params": {"name": "count_stars", "arguments": {"delay_ms": 100}}},
    ]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment(home), **pipes) as server:
        try:
            for message in messages:
                server.stdin.write(json.dumps(message) + "\n")
                server.stdin.flush()
                while "id" in message and json.loads(line := server.stdout.readline()).get("id") != message["id"]:
                    pass
            assert json.loads(line)["result"]["structuredContent"] == {"stars": 40}, line
        finally:
            server.stdin.close()
            server.wait(TIMEOUT)


def main_job(program, version, home):
    """Starts the demo, and calls a tool until it ends."""
    said = run(*program, "--version", home=home).strip()
    assert said == f"taskbridge {version}", said
    command = [*program, "dev", "--listen", "127.0.0.1:0"]
    server = subprocess.Popen(command, env=environment(home), stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().split()[-1]
        called = run(*program, "call", "--url", url, "--json", "count_stars", "delay_ms=100", home=home)
        assert json.loads(called)["result"]["structuredContent"] == {"stars": 40}, called
    finally:
        server.terminate()
        server.wait(TIMEOUT)
    assert not list(home.glob("taskbridge-dev-*")), "the demo left files"


def check_evidence(out, version):
    sums = dict(reversed(line.split("  ")) for line in (out / "SHA256SUMS").read_text().splitlines())
    files = {file.name for file in out.iterdir()}
    assert set(sums) == files - {"SHA256SUMS"}, "SHA256SUMS does not list each file"
    for name, digest in sums.items():
        assert evidence.digest(out / name) == digest, f"SHA256SUMS: {name}"
    bill = json.loads((out / f"taskbridge-{version}.cdx.json").read_text())
    names = {component["name"] for component in bill["components"]}
    assert {"tokio", "rustls", "taskbridge-sdk"} <= names and "proptest" not in names, "the SBOM"
    name = f"taskbridge-{version}.provenance.json"
    statement = json.loads((out / name).read_text())
    assert statement["_type"] == "https://in-toto.io/Statement/v1", name
    subjects = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    assert subjects == {file: sums[file] for file in files - {"SHA256SUMS", name}}, f"{name}: the subjects"
    sources = [each["digest"].get("gitCommit") for each in statement["predicate"]["buildDefinition"]["resolvedDependencies"]]
    assert sources[-1] == evidence.commit(), f"{name}: the commit"


def check_formula(out, version, platforms):
    file = out / "taskbridge.rb"
    subprocess.run(["ruby", "-c", "-W2", file], check=True, stdout=subprocess.DEVNULL)
    text = file.read_text()
    for platform in platforms:
        archive = f"taskbridge-{version}-{platform.name}-linux.tar.gz"
        digest = evidence.digest(out / archive)
        assert f"/v{version}/{archive}\"\n    sha256 \"{digest}\"" in text, f"{file.name}: {archive}"


def main():
    version, out, tools = sys.argv[1], Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve()
    platforms = [PLATFORMS[name] for name in sys.argv[4:]]
    check_evidence(out, version)
    check_formula(out, version, platforms)
    for platform in platforms:
        for install in (install_archive, install_wheel, install_npm, install_debian, install_bundle):
            with tempfile.TemporaryDirectory() as folder:
                began = time.monotonic()
                program = emulated(platform) + install(out, tools, version, platform, Path(folder))
                installed = time.monotonic()
                main_job(program, version, Path(folder))
                ended = time.monotonic()
            kind = install.__name__.removeprefix("install_")
            print(f"{platform.name:7} {kind:8} installed in {installed - began:4.1f} s, "
                  f"first task ended after {ended - installed:4.1f} s")
    for file in sorted(out.iterdir()):
        print(f"{file.stat().st_size:>10} {file.name}")


if __name__ == "__main__":
    main()
