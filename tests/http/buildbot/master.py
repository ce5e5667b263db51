"""Config of a Buildbot master, for tests of the http adapter (serve.py). Each build leaves a line in starts/KEY.

Each file in the folder `offers` is the name of a further builder, and the file `receiver` the address to which builds
are posted: SIGHUP makes the master read them.
"""

import os
from pathlib import Path

from buildbot.plugins import reporters, schedulers, steps, util, worker
from buildbot.process import results
from buildbot.process.buildstep import BuildStep

FOLDER = Path(os.environ["FOLDER"])
# A worker runs one build of a builder at a time.
WORKERS = [f"w{number}" for number in range(1, 25)]


class Again(BuildStep):
    """Asks Buildbot to build again, as it does after it lost a worker."""

    async def run(self):
        starts = (FOLDER / "starts" / self.getProperty("reason")).read_text().splitlines()
        return results.RETRY if len(starts) == 1 else results.SUCCESS


def shell(name, script, *arguments, **more):
    return steps.ShellCommand(name=name, command=["sh", "-c", script, name, *arguments], **more)


RECORD = shell("record", 'echo started >> "$1"', util.Interpolate(f"{FOLDER}/starts/%(prop:reason)s"))
GREET = [
    steps.SetPropertyFromCommand(name="say", command=["echo", "hello", util.Property("who")], property="result"),
    steps.SetProperty(name="note", property="data", value=util.Interpolate(
        "%(prop:times)s %(prop:loud)s %(prop:parts)s %(prop:box)s")),
]
BUILDERS = {
    "greet": GREET,
    "show": [shell("warn", "echo early words >&2"), shell("open", "echo one; echo open words"),
             shell("show", "echo first line; echo second line; echo third line")],
    "fail": [shell("break", "echo out of luck >&2; exit 3")],
    "warn": [shell("grumble", "exit 1", warnOnFailure=True, flunkOnFailure=False)],
    "wait": [shell("wait", "exec sleep 1200")],
    "again": [Again(name="again"), steps.SetProperty(property="result", value="built twice")],
    "idle": [],
    "unmarked": [],
} | {offer.name: GREET for offer in (FOLDER / "offers").iterdir()}
FIELDS = [
    util.StringParameter(name="who", label="Whom to greet.", default="world", maxsize=40, regex="^[a-z ]+$"),
    util.IntParameter(name="times", default=1),
    util.BooleanParameter(name="loud", default=False),
    util.ChoiceStringParameter(name="tongue", choices=["en", "de"], default="en", tooltip="The language."),
    util.ChoiceStringParameter(name="parts", choices=["a", "b"], multiple=True, default=["a"]),
    util.NestedParameter(name="box", fields=[util.TextParameter(name="note", default="none")]),
    util.FixedParameter(name="fixed", default="1"),
]
REPORTERS = [reporters.HttpStatusPush(receiver.read_text(), headers={"X-Secret": "word"})
             for receiver in FOLDER.glob("receiver")]

BuildmasterConfig = {
    "title": "test",
    "buildbotURL": f"http://127.0.0.1:{os.environ['PORT']}/",
    "buildbotNetUsageData": None,
    "db": {"db_url": "sqlite:///state.sqlite"},
    "protocols": {"pb": {"port": "tcp:0:interface=127.0.0.1"}},
    "www": {"port": f"tcp:{os.environ['PORT']}:interface=127.0.0.1"},
    "workers": [*(worker.LocalWorker(name) for name in WORKERS), worker.Worker("absent", "secret")],
    "builders": [
        util.BuilderConfig(name=name, description=f"Runs {name}.", tags=[] if name == "unmarked" else ["mcp"],
                           workernames=["absent"] if name == "idle" else WORKERS,
                           # What is tested with `idle` is what Buildbot does without this line.
                           collapseRequests=None if name == "idle" else False,
                           factory=util.BuildFactory([RECORD, *work]))
        for name, work in BUILDERS.items()
    ],
    "services": REPORTERS,
    "schedulers": [
        schedulers.ForceScheduler(name="force", builderNames=list(BUILDERS), properties=FIELDS),
        schedulers.ForceScheduler(name="strict", builderNames=["greet"],
                                  properties=[util.StringParameter(name="who", required=True)]),
    ],
}
