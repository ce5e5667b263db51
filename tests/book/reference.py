#!/usr/bin/env python3
"""Generates the pages about configs, from their schema, and about commands, from the program's help.

    tests/book/reference.py PROGRAM FOLDER

Writes config.md and cli.md into FOLDER. docs/reference/ has the pages that contain them.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

MAX_DEPTH = 6


def run(program, *arguments):
    environment = {"PATH": os.environ["PATH"], "COLUMNS": "100"}
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True, env=environment).stdout


# ------------------------------------------------------------------------------------------------------------ config


class Config:
    """The page about configs."""

    def __init__(self, schema):
        self.schema = schema
        self.lines = []

    def resolve(self, node):
        seen = set()
        while isinstance(node, dict) and "$ref" in node and node["$ref"] not in seen:
            seen.add(node["$ref"])
            target = self.schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
            node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
        return node if isinstance(node, dict) else {}

    def kind(self, node):
        """The type of a value, in words."""
        node = self.resolve(node)
        if "const" in node:
            return f"`{json.dumps(node['const'])}`"
        if "enum" in node:
            return ", ".join(f"`{json.dumps(value)}`" for value in node["enum"])
        for key in ("oneOf", "anyOf"):
            if key in node:
                return " or ".join(dict.fromkeys(self.kind(each) for each in node[key]))
        kind = node.get("type", "any")
        if isinstance(kind, list):
            return " or ".join(kind)
        if kind == "array":
            return f"list of {self.kind(node['items'])}" if "items" in node else "list"
        return {"object": "table", "boolean": "true or false"}.get(kind, kind)

    def rows(self, node, prefix="", depth=0):
        """One row for each field, those of inner tables after their table."""
        node = self.resolve(node)
        for name, field in node.get("properties", {}).items():
            shown = self.resolve(field)
            default = json.dumps(shown["default"]) if shown.get("default") is not None else ""
            if default in ("{}", "[]") or len(default) > 60:
                default = ""
            needed = " (required)" if name in node.get("required", []) else ""
            text = " ".join(str(shown.get("description", "")).split())
            text = text.replace("|", "\\|").replace("<", "&lt;")
            kind = self.kind(field).replace("|", "\\|")
            yield f"| `{prefix}{name}`{needed} | {kind} | {'`' + default + '`' if default else ''} | {text} |"
            if depth < MAX_DEPTH:
                yield from self.rows(shown, f"{prefix}{name}.", depth + 1)
                inner = shown.get("additionalProperties")
                if isinstance(inner, dict):
                    yield from self.rows(inner, f"{prefix}{name}.NAME.", depth + 1)
                items = self.resolve(shown.get("items", {}))
                yield from self.rows(items, f"{prefix}{name}[].", depth + 1)

    def table(self, title, node):
        rows = list(self.rows(node))
        description = " ".join(str(self.resolve(node).get("description", "")).split())
        self.lines += [f"## {title}", ""]
        if description:
            self.lines += [description.replace("<", "&lt;"), ""]
        if rows:
            self.lines += ["| field | value | default | meaning |", "|---|---|---|---|", *rows, ""]

    def text(self):
        for name, node in self.schema["properties"].items():
            inner = self.resolve(node).get("additionalProperties")
            if name == "backends":
                self.lines += ["## [backends.NAME]", "", node["description"], ""]
                for each in inner["oneOf"]:
                    kind = self.resolve(each)["properties"]["kind"].get("const", "?")
                    self.table(f'[backends.NAME] of kind "{kind}"', each)
            elif isinstance(inner, dict):
                self.table(f"[{name}.NAME]", {**self.resolve(inner), "description": node.get("description", "")})
            elif self.resolve(node).get("type") == "array":
                items = self.resolve(self.resolve(node).get("items", {}))
                title = f"[[{name}]]" if items.get("properties") else name
                self.table(title, {**items, "description": node.get("description", "")})
            else:
                self.table(f"[{name}]", node)
        for name, node in self.schema["$defs"].items():
            if name.endswith("Target") or name == "Target":
                self.table(f"target: {name}", node)
        return "\n".join(self.lines).rstrip() + "\n"


# ---------------------------------------------------------------------------------------------------------- commands


def commands(program):
    """The page about commands."""
    lines = []

    def add(path):
        text = run(program, *path, "--help").rstrip()
        lines.extend(["", f"## taskbridge {' '.join(path)}".rstrip(), "", "```text", text, "```"])
        listed = re.search(r"^Commands:\n((?:  .*\n|\n)+)", text + "\n", re.MULTILINE)
        for name in re.findall(r"^  ([a-z][a-z-]*)", listed.group(1), re.MULTILINE) if listed else []:
            if name != "help":
                add([*path, name])

    add([])
    return re.sub(r"[ \t]+$", "", "\n".join(lines), flags=re.MULTILINE) + "\n"


def main():
    program, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    schema = json.loads(run(program, "schema"))
    (folder / "config.md").write_text(Config(schema).text())
    (folder / "cli.md").write_text(commands(program))


if __name__ == "__main__":
    main()
