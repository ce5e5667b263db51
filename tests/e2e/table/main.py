"""Runs every client of `rows.py` through every scenario of `scenarios.py`, and prints the table.

    main.py --packages FOLDER --server PROGRAM --work FOLDER [--client WORD]... [--scenario NAME]...

Exits with 1 if a scenario failed.
"""

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from peer import Failed
from rows import CLIENTS, Place, Row
from scenarios import SCENARIOS

# Most of the time a row waits for its jobs.
AT_ONCE = 3


@dataclass
class Cell:
    word: str
    why: str = ""


@dataclass
class Line:
    """A finished row."""

    head: list[str]
    cells: dict[str, Cell]
    seconds: float


def run(row: Row, wanted: list[str]) -> Line:
    began = time.monotonic()
    client = row.client
    try:
        library = row.library
    except Failed as failure:
        library = f"does not start: {failure}"
    cells = {name: cell(row, name) for name in wanted}
    try:
        row.end()
    except Failed as failure:
        cells[wanted[-1]] = Cell("FAILED", str(failure))
    return Line([client.label, library, client.generation, row.over], cells, time.monotonic() - began)


def cell(row: Row, name: str) -> Cell:
    if why := row.client.without.get(name):
        return Cell("n.a.", why)
    try:
        SCENARIOS[name](row)
    except Failed as failure:
        row.drop()
        return Cell("FAILED", str(failure))
    return Cell("ok")


def table(lines: list[Line], wanted: list[str]) -> str:
    heads = ["client", "library", "generation", "over", *wanted, "s"]
    body = [[*line.head, *(line.cells[name].word for name in wanted), f"{line.seconds:.0f}"] for line in lines]
    widths = [max(len(row[n]) for row in [heads, *body]) for n in range(len(heads))]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in [heads, *body]
    )


def notes(lines: list[Line], word: str) -> list[str]:
    """Each reason once, with the clients and scenarios that it holds for."""
    found: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for line in lines:
        _, library, generation, over = line.head
        for name, seen in line.cells.items():
            if seen.word == word:
                overs, names = found.setdefault((f"{library}, {generation}", seen.why), ([], []))
                overs += [over] * (over not in overs)
                names += [name] * (name not in names)
    return [f"{word} {who} ({', '.join(o)}): {', '.join(names)}: {why}" for (who, why), (o, names) in found.items()]


def main() -> int:
    parser = argparse.ArgumentParser(description="Every client, every scenario, one table.")
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--server", type=Path, required=True, help="the program of taskbridge")
    parser.add_argument("--work", type=Path, required=True, help="an empty folder for states and a log")
    parser.add_argument("--client", action="append", default=[], help="only rows with these words")
    parser.add_argument("--scenario", action="append", default=[], choices=SCENARIOS)
    options = parser.parse_args()
    wanted = options.scenario or list(SCENARIOS)
    with (options.work / "log").open("wb") as log:
        place = Place(options.packages.absolute(), options.server.absolute(), options.work.absolute(), log)
        rows = [Row(client, over, place) for client in CLIENTS for over in ("http", "stdio")]
        rows = [row for row in rows if chosen(row, options.client)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            # The slowest first, so that it is not waited for alone in the end.
            slowest = sorted(rows, key=lambda row: row.client.program != "inspector")
            done = dict(zip(slowest, pool.map(lambda row: run(row, wanted), slowest), strict=True))
            lines = [done[row] for row in rows]
    print(table(lines, wanted))
    failed = notes(lines, "FAILED")
    print("\n".join(["", *notes(lines, "n.a."), *failed]))
    words = [seen.word for line in lines for seen in line.cells.values()]
    print(f"{words.count('ok')} passed, {words.count('FAILED')} failed")
    return 1 if failed or not lines else 0


def chosen(row: Row, words: list[str]) -> bool:
    name = f"{row.client.label} {row.client.program} {row.client.generation} {row.over}"
    return all(word in name for word in words)


if __name__ == "__main__":
    sys.exit(main())
