#!/usr/bin/env python3
"""Installs each package of a release into an empty folder, and runs the main job with it: the demo, and one call.

    release/check.py VERSION FOLDER

Everything is installed from FOLDER, without a network. It must not change the packages.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# How long a step may take, in seconds. A busy machine may need most of it.
TIMEOUT = 120


def run(*command, home, **options):
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "TMPDIR": str(home)}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=TIMEOUT, **options)


def install_archive(out, version, home):
    run("tar", "-xzf", out / f"taskbridge-{version}-x86_64-linux.tar.gz", "-C", home, home=home)
    return [home / f"taskbridge-{version}-x86_64-linux/bin/taskbridge"]


def install_wheel(out, version, home):
    run(sys.executable, "-m", "venv", home / "venv", home=home)
    pip = [home / "venv/bin/pip", "install", "--quiet", "--no-index", "--disable-pip-version-check"]
    run(*pip, next(out.glob("*.whl")), home=home)
    return [home / "venv/bin/taskbridge"]


def install_npm(out, version, home):
    (home / "package.json").write_text("{}")
    packages = [out / f"taskbridge-linux-x64-{version}.tgz", out / f"taskbridge-{version}.tgz"]
    run("npm", "install", "--offline", "--no-audit", "--no-fund", "--silent", *packages, home=home, cwd=home)
    return [home / "node_modules/.bin/taskbridge"]


def install_debian(out, version, home):
    run("dpkg-deb", "--extract", out / f"taskbridge_{version}_amd64.deb", home / "root", home=home)
    for path in ("share/man/man1/taskbridge-call.1.gz", "share/bash-completion/completions/taskbridge", "share/doc/taskbridge/copyright"):
        assert (home / "root/usr" / path).is_file(), path
    return [home / "root/usr/bin/taskbridge"]


def main_job(program, version, home):
    """Starts the demo, and calls a tool until it ends."""
    said = run(*program, "--version", home=home).stdout.strip()
    assert said == f"taskbridge {version}", said
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "TMPDIR": str(home)}
    server = subprocess.Popen([*program, "dev", "--listen", "127.0.0.1:0"], env=environment, stdout=subprocess.PIPE,
                              text=True)
    try:
        url = server.stdout.readline().split()[-1]
        called = run(*program, "call", "--url", url, "--json", "count_stars", "delay_ms=100", home=home).stdout
        assert json.loads(called)["result"]["structuredContent"] == {"stars": 40}, called
    finally:
        server.terminate()
        server.wait(TIMEOUT)
    assert not list(home.glob("taskbridge-dev-*")), "the demo left files"


def main():
    version, out = sys.argv[1], Path(sys.argv[2]).resolve()
    for line in (out / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest, name
    bill = json.loads((out / f"taskbridge-{version}.cdx.json").read_text())
    names = {component["name"] for component in bill["components"]}
    assert {"tokio", "rustls", "taskbridge-sdk"} <= names and "proptest" not in names, "the SBOM"
    for install in (install_archive, install_wheel, install_npm, install_debian):
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            program = install(out, version, Path(folder))
            installed = time.monotonic()
            main_job(program, version, Path(folder))
            ended = time.monotonic()
        kind = install.__name__.removeprefix("install_")
        print(f"{kind:8} installed in {installed - began:4.1f} s, first task ended after {ended - installed:4.1f} s")
    for file in sorted(out.iterdir()):
        print(f"{file.stat().st_size:>10} {file.name}")


if __name__ == "__main__":
    main()
