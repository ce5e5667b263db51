"""Copies what a build of the image is sent, by .dockerignore: python3 context.py FOLDER. Docker itself is not needed for it."""

import fnmatch
import pathlib
import shutil
import subprocess
import sys


def rules():
    """The patterns with whether each takes in or leaves out. The last that fits a file decides."""
    for line in pathlib.Path(".dockerignore").read_text().splitlines():
        line = line.strip()
        if line and not line.startswith("#"):
            yield line.lstrip("!"), line.startswith("!")


def fits(pattern, path):
    """Whether a pattern means this file, or a folder that it is in."""
    parts = path.split("/")
    for depth in range(1, len(parts) + 1):
        at = "/".join(parts[:depth])
        if pattern.startswith("**/"):
            if fnmatch.fnmatchcase(parts[depth - 1], pattern[3:]):
                return True
        elif at.count("/") == pattern.count("/") and fnmatch.fnmatchcase(at, pattern):
            return True
    return False


def main():
    target = pathlib.Path(sys.argv[1])
    # What Git does not know would be sent as well, so that the rules must leave it out.
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    sent = []
    for path in listed:
        taken = True
        for pattern, takes in rules():
            if fits(pattern, path):
                taken = takes
        if taken and pathlib.Path(path).is_file():
            sent.append(path)
    for path in sent:
        assert not path.startswith(("target/", ".git/", ".ci/")), f"{path} is sent to every build"
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / path)
    tracked = set(subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.splitlines())
    missing = [path for path in tracked if path.startswith(("src/", "crates/", "adapters/")) and path not in sent]
    assert not missing, f"a build is not sent {missing[:5]}"
    print(f"a build is sent {len(sent)} of {len(tracked)} files")


main()
