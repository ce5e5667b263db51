"""What Slurm's own records say of the jobs of a run, by which what clients were told is judged: the controller's log, the accounting, and the
folders of the jobs. It must not know what the bridge made of them.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# What is told of a job that Slurm shows as completed without a run of its script.
NO_TRACE = "its script left no trace"
# What begins each life of the controller in its log.
LIFE = "slurmctld version "
# What the accounting is asked for, of each job that ever was: also of one whose number was given to another since.
ASKED = ("sacct", "-D", "-n", "-P", "-X", "-a", "-S", "1970-01-02", "-o", "JobName,JobID,Submit,Start,State")


@dataclass(frozen=True)
class Row:
    """What the accounting has of a job, or of a task of an array. Its name is the key that it was started with."""

    name: str
    id: str
    submitted: str
    start: str
    state: str

    @property
    def number(self) -> str:
        return self.id.partition("_")[0]

    @property
    def has_begun(self) -> bool:
        return self.start not in ("Unknown", "None")


def rows(text: str) -> list[Row]:
    found = [Row(*line.split("|")) for line in text.splitlines()]
    return [row for row in found if row.name.startswith("tb-")]


def released(found: list[Row]) -> Counter[str]:
    """How many jobs of each key have begun. A number that was given twice stands for two."""
    return Counter(name for name, _, _ in {(row.name, row.number, row.submitted) for row in found if row.has_begun})


def folders(work: Path) -> dict[str, list[Path]]:
    """The folders of the jobs that were made for each label."""
    found = defaultdict(list)
    for arguments in sorted(work.glob("*/tb-*/arguments.json")):
        found[json.loads(arguments.read_text())["label"]].append(arguments.parent)
    return found


def numbers(made: list[Path], found: list[Row]) -> set[str]:
    """All numbers that jobs of these folders had, as far as anybody knows."""
    keys = {folder.name for folder in made}
    noted = {(folder / "id").read_text().strip() for folder in made if (folder / "id").exists()}
    return {row.number for row in found if row.name in keys} | noted - {""}


def forgot(log: str, number: str) -> bool:
    """Whether the controller gave a job this number, and did not know it when it began anew."""
    given = False
    for life in log.split(LIFE)[1:]:
        if given and not re.search(rf"Recovered JobId={number}[ _]", life):
            return True
        given = given or f"submit_batch_job: JobId={number} " in life
    return False


def repeated(log: str, number: str) -> bool:
    """Whether it gave the number twice, to a task of another array for one; or started a job of it, or a task, that it had started before; or
    was told of it by a node and did not know it.
    """
    started = re.findall(rf"(?:Allocate|Started) JobId=({number}(?:_\d+)?)\b", log)
    again = any(count > 1 for count in Counter(started).values())
    arrays = set(re.findall(rf"JobId=(\d+)_\d+\({number}\)", log)) - {number}
    unknown = re.search(rf"invalid JobId={number}\b", log)
    return again or bool(arrays or unknown) or log.count(f"submit_batch_job: JobId={number} ") > 1


def is_of(line: str, number: str) -> bool:
    return bool(re.search(rf"JobId=(?:\d+_\d+\({number}\)|{number}(?!\d))", line))


def unexcused(told: dict[str, str], log: str, found: list[Row], work: Path) -> Iterator[str]:
    """Of jobs that were told as lost, by label, those that the controller neither forgot nor started twice, or that completed."""
    made = folders(work)
    for label, said in told.items():
        mine = numbers(made[label], found)
        # Each task of an array has a number of its own.
        mine |= {own for array in mine for own in re.findall(rf"JobId={array}_\d+\((\d+)\)", log)}
        if not any(forgot(log, number) or repeated(log, number) for number in mine):
            yield f"{label} was told as lost, and the controller never forgot it: {said}"
            yield from (f"its log: {line}" for line in log.splitlines() if LIFE in line or any(is_of(line, number) for number in mine))
        keys = {folder.name for folder in made[label]}
        ended = [row for row in found if row.name in keys]
        # Of a number that was given twice, the end of the other job may stand there.
        if NO_TRACE not in said and ended and all(row.state == "COMPLETED" for row in ended):
            yield f"{label} was told as lost, and completed: {ended}: {said}"
