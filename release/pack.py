#!/usr/bin/env python3
"""Packs the programs of a release in every format, with an SBOM, provenance and checksums.

    release/pack.py VERSION OUT TOOLS PLATFORM=PROGRAM..       PLATFORM: x86_64 or aarch64
    release/pack.py --given VERSION OUT TOOLS PLATFORM=PROGRAM   says in the provenance that the program was not built here

The program of this machine's platform must be among them. TOOLS has mcpb in it. It must not build anything.
"""

import platform
import subprocess
import sys
from pathlib import Path

import evidence
import formats
from platforms import PLATFORMS


def main():
    arguments = sys.argv[1:]
    is_release = arguments[0] != "--given"
    version, out, tools, *pairs = arguments if is_release else arguments[1:]
    out, tools = Path(out).resolve(), Path(tools).resolve()
    programs = {PLATFORMS[name]: Path(file).resolve() for name, file in (pair.split("=", 1) for pair in pairs)}
    own = programs[PLATFORMS[platform.machine()]]
    said = subprocess.run([own, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    if said != f"taskbridge {version}":
        print(f"release/pack.py: {own} is `{said}`, not version {version}", file=sys.stderr)
        return 1
    out.mkdir(parents=True)
    shared = formats.shared_files(own)
    for each, program in programs.items():
        files = {"bin/taskbridge": (program.read_bytes(), 0o755), **shared}
        formats.archive(version, each, files, out)
        formats.wheel(version, each, files, out)
        formats.npm_program(version, each, files, out)
        formats.debian(version, each, files, out)
        formats.bundle(version, each, files, tools, out)
    formats.npm_launcher(version, programs, out)
    formats.formula(version, programs, out)
    evidence.sbom(version, programs, out)
    evidence.provenance(version, programs, is_release, out)
    evidence.checksums(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
