#!/usr/bin/env python3
"""Builds the test programs of the workspace, and runs several at a time: most of them wait most of the time.

    tests/programs.py [--at-once N] [PACKAGE...]    the programs of these packages, else of all

Prints the output of each program when it ends. Without packages, it also runs the documentation examples. Exits with 1
if a test fails or does not run. It must not know what the programs test.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

# The tests of a program that hangs are named by what it printed.
TIME_LIMIT = 1800
# It computes all the time, and takes longest: it starts first, beside the others.
COMPUTES = "taskbridge-simulation"
RESULT = re.compile(r"^test result: .*? (\d+) passed; (\d+) failed; (\d+) ignored; \d+ measured; (\d+) filtered out", re.M)


def build() -> list[dict]:
    """Builds all programs and returns what Cargo says of each. All packages are built together: a build of some
    has other features, and builds their dependencies again."""
    command = ["cargo", "test", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"]
    built = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        sys.exit(built.returncode)
    messages = map(json.loads, built.stdout.splitlines())
    return [message for message in messages if message.get("executable") and message["profile"]["test"]]


def package(program: dict) -> str:
    """The name of the program's package: `path+file:///folder#name@1.0.0`, or `..#1.0.0` for a folder of that name."""
    place, _, name = program["package_id"].rpartition("#")
    return name.split("@")[0] if "@" in name else place.rsplit("/", 1)[1]


def run(program: dict) -> tuple[str, str, int, float]:
    """Runs one program as Cargo does: in the folder of its package. Returns its title, output, exit code and seconds."""
    folder = pathlib.Path(program["manifest_path"]).parent
    title = f"{package(program)}, {pathlib.Path(program['target']['src_path']).relative_to(folder)}"
    began = time.monotonic()
    # A file, not a pipe: what a program leaves running keeps a pipe open, and its reader waits for ever.
    with tempfile.TemporaryFile("w+", errors="replace") as printed:
        try:
            code = subprocess.run(
                program["executable"],
                cwd=folder,
                env=os.environ | {"CARGO_MANIFEST_DIR": str(folder), "CARGO_PKG_NAME": package(program)},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                timeout=TIME_LIMIT,
            ).returncode
        except subprocess.TimeoutExpired:
            code = 1
        took = time.monotonic() - began
        printed.seek(0)
        output = printed.read()
    if took >= TIME_LIMIT:
        output += f"\nFAILED: not ended after {TIME_LIMIT} s\n"
    return title, output, code, took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--at-once", type=int, default=3, help="beside the simulation")
    parser.add_argument("packages", nargs="*")
    options = parser.parse_args()
    programs = build()
    unknown = set(options.packages) - {package(program) for program in programs}
    if unknown:
        parser.error(f"no package with tests has the name {', '.join(sorted(unknown))}")
    if options.packages:
        programs = [program for program in programs if package(program) in options.packages]
    # The integration tests take longest; of these, the largest.
    programs.sort(
        key=lambda it: (
            package(it) == COMPUTES,
            "test" in it["target"]["kind"],
            os.path.getsize(it["executable"]),
        ),
        reverse=True,
    )

    passed = failed = 0
    wrong, otherwise = [], []
    with concurrent.futures.ThreadPoolExecutor(options.at_once + 1) as pool:
        for done in concurrent.futures.as_completed([pool.submit(run, program) for program in programs]):
            title, output, code, seconds = done.result()
            print(f"---- {title}: {seconds:.1f} s\n{output}", flush=True)
            otherwise += re.findall(r"tried otherwise: .*", output)
            results = [tuple(map(int, result)) for result in RESULT.findall(output)]
            passed += sum(result[0] for result in results)
            failed += sum(result[1] for result in results)
            if code or any(ignored or filtered for _, _, ignored, filtered in results):
                wrong.append(title)
    if not options.packages:
        done = subprocess.run(["cargo", "test", "--workspace", "--doc"], stdout=subprocess.PIPE, text=True)
        print(f"---- documentation examples\n{done.stdout}", flush=True)
        results = [tuple(map(int, result)) for result in RESULT.findall(done.stdout)]
        passed += sum(result[0] for result in results)
        if done.returncode or any(ignored or filtered for _, _, ignored, filtered in results):
            wrong.append("documentation examples")
    print(*otherwise, f"in all: {passed} passed, {failed} failed", sep="\n")
    for title in wrong:
        print(f"FAILED: {title}: a test failed or did not run")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
