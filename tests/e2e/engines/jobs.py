"""What an engine itself says of the jobs that ran in it, held against what clients were told."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from callers import Call


@dataclass(frozen=True)
class Job:
    """One job. `label` is of the attempt that it was started for."""

    work: str
    label: str
    status: str
    # What the client must be told that it said, where that can be read.
    says: Any
    name: str
    # When it ended, if the engine tells.
    ended: float = 0


@dataclass
class Verdict:
    accepted: int
    attempts: int
    jobs: int
    uncertain: list[str]
    doubles: list[str]
    lost: list[str]
    strays: list[str]
    wrong: list[str]

    @property
    def holds(self) -> bool:
        return not (self.doubles or self.lost or self.strays or self.wrong)


def judge(calls: list[Call], jobs: list[Job]) -> Verdict:
    """One job for each attempt that was accepted, at most one for the others, and none beside; and each result is the
    one that its job had."""
    by_label: dict[str, list[Job]] = defaultdict(list)
    children: dict[str, int] = defaultdict(int)
    works = {call.work.name for call in calls}
    for job in jobs:
        if job.work in works:
            by_label[job.label].append(job)
        else:
            children[job.label] += 1
    uncertain, doubles, lost, strays, wrong = [], [], [], [], []
    known = set()
    for call in calls:
        known.update(call.labels)
        if call.wrong:
            wrong.append(f"call {call.number} of {call.work.name}: {call.wrong}")
        named = {label: [job.name for job in by_label[label]] for label in call.labels}
        doubles += [f"{label}: {names}" for label, names in named.items() if len(names) > 1]
        most = call.work.children
        doubles += [f"{label} started {children[label]} children" for label in call.labels if children[label] > most]
        if not call.task:
            continue
        mine = by_label[call.labels[-1]]
        if not call.work.begins:
            wrong += [f"{call.labels[-1]} of {call.work.name} ran: {job.name}" for job in mine]
            continue
        if call.uncertain:
            # Nobody knows whether it was started: so it may have been, once.
            uncertain.append(call.labels[-1])
            continue
        if not mine or not call.got:
            lost.append(f"{call.labels[-1]} of {call.work.name}: {len(mine)} jobs, {call.got}")
            continue
        ended = [job.status for job in mine]
        if any(status != call.work.status for status in ended):
            wrong.append(f"{call.labels[-1]} of {call.work.name} ended {ended}")
        if any(job.status == "SUCCEEDED" and job.says not in (None, call.got["structured"]) for job in mine):
            wrong.append(f"{call.labels[-1]}: the client was told {call.got}, and the job said {mine}")
        if children[call.labels[-1]] < most:
            wrong.append(f"{call.labels[-1]} started {children[call.labels[-1]]} children")
    generations: dict[str, list[str]] = defaultdict(list)
    for call in calls:
        generations[call.work.name].append(call.generation)
    one_sided = [name for name, of in generations.items() if len(of) > 1 and len(set(of)) == 1]
    wrong += [f"only clients of {generations[name][0]} called {name}" for name in one_sided]
    strays += [job.name for label, all_of in by_label.items() if label not in known for job in all_of]
    strays += [f"{count} children of {label}" for label, count in children.items() if label not in known]
    accepted = sum(bool(call.task) for call in calls)
    attempts = sum(len(call.labels) for call in calls)
    return Verdict(accepted, attempts, sum(map(len, by_label.values())), uncertain, doubles, lost, strays, wrong)
