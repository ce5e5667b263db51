#!/usr/bin/env python3
"""Says which sections of tests/run, and the tests of which packages, the changes since a revision can affect.

    tests/changed.py REVISION    the changes since this revision, committed or not
    tests/changed.py -           the paths that standard input names, one in each line

Prints the lines `sections: ..` and `packages: ..`. No packages means all. What no rule names affects everything. It
must not run anything.
"""

import fnmatch
import json
import re
import subprocess
import sys

RUN = "tests/run"
EVERYTHING = "everything"
# What a change of code affects: of any, of an engine's, of the server.
CODE = "packages format lint build features standins github http collector tests"
ENGINE = "libraries engines engines-slurm examples"
SERVER = f"{CODE} chaos configs deploy book libraries clients connect engines engines-slurm conformance examples adapters console"
# The first pattern that matches a path says what a change of it affects, beside the tests of its package. A `*` crosses
# folders.
RULES = [
    (".ci/*", EVERYTHING),
    ("*Cargo.toml", EVERYTHING),
    ("Cargo.lock", EVERYTHING),
    (".cargo/*", EVERYTHING),
    ("clippy.toml", "packages lint"),
    ("deny.toml", "packages dependencies"),
    ("rustfmt.toml", "packages format"),
    # Tests read the pages of the tree.
    ("*.md", f"{CODE} book"),
    ("docs/book.toml", "packages build book"),
    ("tests/book/*", "packages build book"),
    # Tests check the conventions of all sources, and read all configs.
    ("tests/chaos/*", f"{CODE} chaos"),
    ("tests/conformance/*", "packages build conformance"),
    ("tests/deploy/*", "packages build deploy"),
    ("deploy/*", "packages build deploy"),
    ("tests/adapters/*", "packages build adapters"),
    ("tests/connect/*", "packages build connect"),
    ("tests/console/*", "packages build console"),
    ("sdks/*", f"{CODE} adapters"),
    ("examples/adapters/*", f"{CODE} configs adapters"),
    ("tests/e2e/engines/*", "packages build standins github http libraries engines engines-slurm"),
    ("tests/e2e/failures/*", "packages build standins github http libraries engines-slurm"),
    ("tests/e2e/rust/*", f"{CODE} libraries clients"),
    ("tests/e2e/*", f"{CODE} configs libraries clients engines engines-slurm"),
    ("tests/github/*", f"{CODE} {ENGINE}"),
    ("tests/http/*", f"{CODE} {ENGINE}"),
    ("tests/slurm/*", f"{CODE} {ENGINE}"),
    ("tests/full", "packages"),
    ("release/*", "packages build deploy"),
    ("tests/upgrade/*", "packages"),
    ("fuzz/*", CODE),
    ("benches/*", f"{CODE} configs"),
    ("config/*", f"{CODE} configs book"),
    ("examples/*", f"{CODE} configs examples"),
    ("tests/it/*", CODE),
    ("tests/simulation/*", CODE),
    ("tests/schema*", CODE),
    ("tests/telemetry/*", CODE),
    ("adapters/*/tests/*", CODE),
    ("adapters/sdk/*", SERVER),
    # The servers of these sections run its jobs.
    ("adapters/local/*", f"{CODE} chaos configs book clients conformance {ENGINE}"),
    ("adapters/*", f"{CODE} configs book {ENGINE}"),
    ("crates/client/*", f"{CODE} libraries clients examples"),
    ("crates/*", SERVER),
    ("src/*", SERVER),
]


def git(*words: str) -> list[str]:
    return [line for line in subprocess.check_output(["git", *words], text=True).splitlines() if line]


def sections() -> list[str]:
    """All sections, in the order of tests/run."""
    with open(RUN, encoding="utf-8") as script:
        steps = re.search(r"^readonly STEPS=\((.*?)^\)", script.read(), re.M | re.S)
    return [name for step in re.findall(r'"(.*?)"', steps[1]) for name in step.replace("|", " ").split()]


def affected_sections(paths: list[str]) -> list[str]:
    names = set()
    for path in paths:
        affects = next((affects for pattern, affects in RULES if fnmatch.fnmatch(path, pattern)), EVERYTHING)
        if affects == EVERYTHING:
            return sections()
        names |= set(affects.split())
    if unknown := names - set(sections()):
        sys.exit(f"{RUN} has no section {', '.join(sorted(unknown))}")
    return [name for name in sections() if name in names]


def affected_packages(paths: list[str]) -> list[str]:
    """The packages with a changed file, and those that depend on them, also for their tests. No name means all."""
    if affected_sections(paths) == sections():
        return []
    metadata = json.loads(subprocess.check_output(["cargo", "metadata", "--no-deps", "--format-version", "1"]))
    root = metadata["workspace_root"]
    folders = {each["manifest_path"].removeprefix(f"{root}/").removesuffix("Cargo.toml"): each for each in metadata["packages"]}
    changed = set()
    for path in paths:
        folder = max((folder for folder in folders if path.startswith(folder)), key=len)
        # The server's tests read the tree: its pages, its manifests, the order of its modules.
        changed |= {folders[folder]["name"], folders[""]["name"]}
    users = {each["name"]: {need["name"] for need in each["dependencies"]} for each in metadata["packages"]}
    while more := {name for name, needs in users.items() if needs & changed} - changed:
        changed |= more
    return sorted(changed) if len(changed) < len(users) else []


def changed_paths(revision: str) -> list[str]:
    known = subprocess.run(["git", "rev-parse", "--quiet", "--verify", f"{revision}^{{commit}}"], capture_output=True)
    if known.returncode:
        sys.exit(f"{revision} is no revision: name a commit, a branch or a tag, such as main")
    return git("diff", "--name-only", "--no-renames", revision) + git("ls-files", "--others", "--exclude-standard")


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1].startswith("--"):
        sys.exit(__doc__.strip())
    paths = sys.stdin.read().splitlines() if sys.argv[1] == "-" else changed_paths(sys.argv[1])
    print(f"sections: {' '.join(affected_sections(paths))}")
    print(f"packages: {' '.join(affected_packages(paths))}")


if __name__ == "__main__":
    main()
