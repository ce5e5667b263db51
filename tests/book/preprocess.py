#!/usr/bin/env python3
"""Preprocessor of the book (docs/book.toml): pages that are kept beside the code, and links to files of the source.

A page that is only `{{#include PATH}}` becomes that file, and its links start there. A link to a file that is a page
of the book becomes a link to the page. A link to any other file of the tree becomes its text, because the book does
not contain that file. A link to a file that does not exist is an error. `{{#generated NAME}}` becomes a page that
tests/book/reference.py has generated, in the folder $TASKBRIDGE_GENERATED. It must not write files.

mdBook calls it with `[context, book]` as JSON on standard input, and reads the book from standard output.
"""

import json
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
GENERATED = re.compile(r"\{\{#generated ([a-z]+\.md)\}\}")
INCLUDE = re.compile(r"\s*\{\{#include ([^}\s]+)\}\}\s*")
# A link or picture, with the text that it shows. Text in square brackets may be nested once, as in [`a[0]`](b).
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
FENCE = re.compile(r"^\s*(```|~~~)")


def chapters(items):
    """All chapters of the book, in order."""
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            yield item["Chapter"]
            yield from chapters(item["Chapter"]["sub_items"])


def origin(chapter):
    """The file that the text of a chapter comes from."""
    page = DOCS / chapter["path"]
    included = INCLUDE.fullmatch(chapter["content"])
    return (page.parent / included.group(1)).resolve() if included else page


class Links:
    """Rewrites the links of one chapter."""

    def __init__(self, chapter, source, pages, problems):
        self.page = DOCS / chapter["path"]
        self.source = source
        self.pages = pages
        self.problems = problems

    def __call__(self, match):
        picture, text, target = match.groups()
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return match.group(0)
        path, _, anchor = target.partition("#")
        file = (self.source.parent / path).resolve()
        page = self.pages.get(file) or self.pages.get(file / "README.md")
        if page:
            to = os.path.relpath(page, self.page.parent)
            return f"{picture}[{text}]({to}{'#' + anchor if anchor else ''})"
        if not file.exists() or ROOT not in [file, *file.parents]:
            self.problems.append(f"{self.source.relative_to(ROOT)}: {target} does not exist")
        return match.group(0) if picture else text


def rewrite(text, links):
    """The text with its links rewritten, except in blocks of code."""
    fenced = False
    lines = []
    paragraph = []

    def flush():
        # A link may span two lines.
        if paragraph:
            lines.append(LINK.sub(links, "\n".join(paragraph)))
            paragraph.clear()

    for line in text.split("\n"):
        if FENCE.match(line):
            flush()
            fenced = not fenced
            lines.append(line)
        elif fenced:
            lines.append(line)
        else:
            paragraph.append(line)
    flush()
    return "\n".join(lines)


def main():
    if sys.argv[1:2] == ["supports"]:
        return 0
    _, book = json.load(sys.stdin)
    items = book.get("items") or book.get("sections")
    every = [chapter for chapter in chapters(items) if chapter["path"]]
    sources = {chapter["path"]: origin(chapter) for chapter in every}
    pages = {DOCS / chapter["path"]: DOCS / chapter["path"] for chapter in every}
    pages |= {source: DOCS / path for path, source in sources.items()}
    # The README of the tree is the front page for those who have the tree.
    pages[ROOT / "README.md"] = DOCS / "introduction.md"
    problems = []
    for chapter in every:
        source = sources[chapter["path"]]
        if not source.is_file():
            problems.append(f"docs/{chapter['path']}: {source} does not exist")
            continue
        text = source.read_text() if INCLUDE.fullmatch(chapter["content"]) else chapter["content"]
        generated = Path(os.environ.get("TASKBRIDGE_GENERATED", ROOT / "target/book/generated"))
        text = GENERATED.sub(lambda match: (generated / match.group(1)).read_text(), text)
        chapter["content"] = rewrite(text, Links(chapter, source, pages, problems))
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 1
    json.dump(book, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
