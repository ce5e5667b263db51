#!/usr/bin/env python3
"""Checks the pages of the book: links, configs and command lines.

    tests/book/check.py PROGRAM HTML

PROGRAM is taskbridge, and HTML is the folder of the built book. Each finding names its page. It must not change files.
"""

import concurrent.futures
import html.parser
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SCHEMA = json.loads((ROOT / "config/schema.json").read_text())
# What an excerpt of a config may lack: another table, a file, or a variable. Everything else is an error of the page.
INCOMPLETE = re.compile(
    r"missing field|unknown backend|there is no backend|cannot be read|is not set|unknown tool|has no `|is not a file|"
    r"there is no tool|the tool has no parameters|\[auth\] (does not identify|admits)|needs an authority|no caller in \[auth\]"
)


# What stands for any value of a kind.
PLACES = {"CLIENT": "cursor", "SHELL": "bash", "COMMAND": "call"}


class Page(html.parser.HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors |= {attributes[name] for name in ("id", "name") if attributes.get(name)}
        self.links += [attributes[name] for name in ("href", "src") if attributes.get(name)]


def links(folder):
    """Links of the built book that lead nowhere."""
    pages = {file: Page(file.read_text()) for file in folder.rglob("*.html") if file.name not in ("print.html", "toc.html")}
    for file, page in pages.items():
        if file.name == "404.html":
            continue
        for link in page.links:
            if re.match(r"[a-z]+:|//", link):
                continue
            path, _, anchor = urllib.parse.unquote(link).partition("#")
            target = (file.parent / path).resolve() if path else file
            if target.is_dir():
                target /= "index.html"
            name = file.relative_to(folder)
            if not target.exists():
                yield f"{name}: link to {link}, which does not exist"
            elif anchor and target in pages and anchor not in pages[target].anchors:
                yield f"{name}: link to {link}, but that page has no #{anchor}"


def sources():
    """The pages, and the README: path and text of each."""
    names = re.findall(r"\]\(([^)]+\.md)\)", (ROOT / "docs/SUMMARY.md").read_text())
    files = [ROOT / "README.md", *(ROOT / "docs" / name for name in names)]
    for file in files:
        text = file.read_text()
        included = re.fullmatch(r"\s*\{\{#include ([^}\s]+)\}\}\s*", text)
        if included:
            file = (file.parent / included.group(1)).resolve()
            text = file.read_text()
        yield str(file.relative_to(ROOT)), text


def blocks(text):
    """The blocks of code: line, label and content of each."""
    label, start, content = None, 0, []
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            if label is None:
                label, start, content = line.strip()[3:], number, []
            else:
                yield start, label, "\n".join(content)
                label = None
        elif label is not None:
            content.append(line)


def configs():
    """The configs of the pages: where, whether complete, and text of each."""
    for name, text in sources():
        for line, label, content in blocks(text):
            if not label.startswith("toml"):
                continue
            where = f"{name}:{line}"
            try:
                tables = tomllib.loads(content)
            except tomllib.TOMLDecodeError as error:
                yield where, None, f"not valid TOML: {error}"
                continue
            known = [table for table in tables if table in SCHEMA["properties"]]
            # Such as the dependencies of a crate.
            if known or label == "toml config":
                yield where, label == "toml config", content


def check_config(program, config):
    """The findings about one config."""
    where, complete, content = config
    if complete is None:
        return [f"{where}: {content}"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.toml"
        file.write_text(content + "\n")
        command = [program, "check", "--no-secrets", "--config", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, env={"HOME": folder, "PATH": os.environ["PATH"]})
        errors = done.stderr.splitlines() if done.returncode else []
        return [f"{where}: {error}" for error in errors if complete or not INCOMPLETE.search(error)]


def commands():
    """The command lines of the pages: where, and the arguments of each."""
    for name, text in sources():
        code = []
        for line, label, content in blocks(text):
            if label.split(" ")[0] in ("sh", "console", "bash"):
                joined = content.replace("\\\n", " ")
                code += [(f"{name}:{line}", part) for part in joined.split("\n")]
        plain = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        code += [(name, part.replace("\n", " ")) for part in re.findall(r"(?<!`)`([^`]+)`(?!`)", plain)]
        for where, line in code:
            for part in re.split(r"\|\||&&|[|;>]|\$\(", line):
                try:
                    words = shlex.split(part.rstrip(")").removeprefix("$ "), comments=True)
                except ValueError:
                    continue
                while words and re.fullmatch(r"[A-Z_]+=.*|sudo|exec", words[0]):
                    words.pop(0)
                if words and Path(words[0]).name == "taskbridge" and not words[0].endswith("/"):
                    arguments = [word for word in words[1:] if word not in ("...", "&")]
                    yield where, tuple(arguments)


def messages():
    """Messages that the page about troubleshooting quotes, and that no source has."""
    sources = [file for folder in ("src", "crates", "adapters") for file in (ROOT / folder).rglob("*.rs")]
    text = "\n".join(file.read_text() for file in sources if "target" not in file.parts)
    page = ROOT / "docs/operate/troubleshooting.md"
    for message in re.findall(r"^\| `([^`]+)`", page.read_text(), re.MULTILINE):
        # An ellipsis stands for what differs.
        for part in message.split("..."):
            if part.strip() and part.strip() not in text:
                yield f"docs/operate/troubleshooting.md: no source has the message `{message}`"


def check_command(program, where, arguments):
    """The findings about one command line."""
    if arguments[:1] == ("adapter-helper",):
        return []
    arguments = tuple(PLACES.get(word, word) for word in arguments)
    done = subprocess.run([program, *arguments, "--help"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    # A flag may be mentioned without its value.
    if done.returncode == 0 or "a value is required for" in done.stderr:
        return []
    return [f"{where}: taskbridge {shlex.join(arguments)}: {done.stderr.splitlines()[0]}"]


def main():
    program, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    found_configs = list(configs())
    found_commands = {}
    for where, arguments in commands():
        found_commands.setdefault(arguments, where)
    findings = [*links(folder), *messages()]
    with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
        for result in pool.map(lambda config: check_config(program, config), found_configs):
            findings += result
        checks = pool.map(lambda item: check_command(program, item[1], item[0]), found_commands.items())
        for result in checks:
            findings += result
    complete = sum(config[1] is True for config in found_configs)
    # A check that finds nothing to check has failed, too.
    for what, count, least in [("configs", len(found_configs), 30), ("commands", len(found_commands), 40)]:
        if count < least:
            findings.append(f"only {count} {what} were found in the pages, of at least {least}")
    print("\n".join(findings))
    pages = sum(1 for _ in sources())
    print(f"{pages} pages, {len(found_configs)} configs ({complete} complete), {len(found_commands)} command lines")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
