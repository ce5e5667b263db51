"""The reviewed texts of one engine: a file that people read, and what holds for each text whatever it says.

A case in the file is a title behind `## `, the call, and what an agent reads of it, each line behind `> `.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
# A text is shorter than this, in bytes.
MOST_BYTES = 2048
# Words of an operator's world, and forms that only a debugger wants: an agent can do nothing with them.
FOREIGN = (
    r"\breconciler\b",
    r"\blease\b",
    r"\bcommand_timeout\b",
    r"\bSome\(",
    r"\bNone\b",
    r"\bOk\(",
    r"\bErr\(",
    r"\w+ \{ \w+: ",
    r"\bpanicked\b",
    r"\.rs:\d",
    r"\\n",
)
# What engines write into logs by themselves, and as often as they like.
ENGINES_OWN = re.compile(r"slurmstepd-|module_\d+\.c")
# Shorter than this, words are a name or a number that may well occur again.
SHORTEST_SENTENCE = 16

HEAD = """# What an agent reads of failed calls over {engine}. A case is a title, the call, and the text behind `> `: the status of the
# task, then the result. `TASKBRIDGE_REVIEW=1 tests/e2e/run failures {engine}` writes the texts anew. Read each before it is
# kept: which step failed, why, what next? Identifiers, times, sizes, ports and paths are replaced by examples.
"""


@dataclass(frozen=True)
class Read:
    """What an agent reads of one call: the status of its task, if it became one, and the result."""

    title: str
    call: str
    status: str
    result: str

    @property
    def text(self) -> str:
        return "\n\n".join(part for part in (self.status, self.result) if part)


def sentences(text: str) -> list[str]:
    """The sentences of a text, and the lines of a log in it. A colon introduces, so that it ends none."""
    lines = (line for line in text.splitlines() if not ENGINES_OWN.match(line))
    parts = (part.strip(" -.;") for line in lines for part in re.split(r"(?<=[.!?;])\s+", line))
    return [part for part in parts if len(part) >= SHORTEST_SENTENCE]


def faults(read: Read, answers: dict[str, str]) -> list[str]:
    """What is wrong with a text, whatever the file says. `answers` has the words that answer each question."""
    found = []
    size = len(read.text.encode())
    if size >= MOST_BYTES:
        found.append(f"it has {size} bytes, and {MOST_BYTES} are too many")
    # A client shows a status while it polls, and a result at the end: the one may quote the other, and neither itself.
    for name, part in (("status", read.status), ("result", read.result)):
        said = sentences(part)
        found += [f"the {name} says twice: {one!r}" for one in dict.fromkeys(said) if said.count(one) > 1]
        # One sentence inside another is said twice, too.
        found += [
            f"the {name} says twice: {one!r}"
            for at, one in enumerate(said)
            if any(one in other and one != other for nth, other in enumerate(said) if nth != at)
        ]
    found += [f"it holds {match[0]!r}" for pattern in FOREIGN for match in re.finditer(pattern, read.text)]
    found += [f"it does not say {question}: {words!r}" for question, words in answers.items() if words not in read.text]
    return [f"{read.title}: {fault}" for fault in found]


def path(engine: str) -> Path:
    return HERE / f"{engine}.txt"


def written(engine: str, reads: list[Read]) -> str:
    parts = [HEAD.format(engine=engine)]
    for read in reads:
        lines = "".join(f"> {line}".rstrip() + "\n" for line in read.text.splitlines())
        parts.append(f"## {read.title}\n{read.call}\n{lines}")
    return "\n".join(parts)


def call_in_words(tool: str, arguments: dict[str, object]) -> str:
    return f"{tool} {json.dumps(arguments, ensure_ascii=False)}"
