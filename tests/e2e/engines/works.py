"""What tools of the http adapter run, what a client does with a task of each, and what must come of it. It must not know
the engine.
"""

from dataclasses import dataclass, field
from typing import Any

from callers import SECONDS, result
from peer import Failed, Peer
from workflows import TERMINAL, look


@dataclass(frozen=True)
class Work:
    """One tool: the workflow or DAG that it runs, which hands back its arguments, and what must come of it."""

    name: str
    runs: str
    # What is in the result beside the call's arguments.
    says: dict[str, Any] = field(default_factory=dict)
    status: str = "SUCCEEDED"
    # What the text of a failure has.
    tells: str = ""
    # What the message of a job has that may be cancelled now.
    shows: str = ""
    # The client says yes to what is asked.
    accepts: bool = True
    asks: bool = False
    children: int = 0
    # Most of these engines know a run by its id, which is the key.
    may_be_uncertain: bool = False
    begins: bool = True
    hurries: bool = False

    def arguments(self, label: str, number: int) -> dict[str, Any]:
        return {"label": label, "number": number, "kind": self.name}

    def result(self, label: str, number: int) -> Any:
        """What a success hands back."""
        return {**self.arguments(label, number), **self.says}

    def finish(self, peer: Peer, task: str) -> dict[str, Any]:
        if self.asks:
            # Some libraries wait for a minute at most, and for a question as long as for a result.
            look(peer, task, "a question", lambda seen: seen["status"] == "input_required", SECONDS)
        if self.status != "CANCELLED":
            return result(peer, task)
        # Whoever does it again, because the bridge was killed, finds what there is.
        seen = look(peer, task, "the running job", lambda seen: self.shows in (seen.get("message") or ""), SECONDS)
        if seen["status"] not in TERMINAL:
            peer.ask("cancel", task=task)
            seen = look(peer, task, "an end", lambda seen: False, SECONDS)
        return {"status": seen["status"], "text": seen.get("message"), "structured": None, "error": False}

    def check(self, got: dict[str, Any], label: str, number: int) -> None:
        """Fails unless this is what a call with this label must come to."""
        if self.status == "SUCCEEDED":
            right = got["structured"] == self.result(label, number) and not got["error"]
        elif self.status == "CANCELLED":
            right = got["status"] == "cancelled"
        else:
            right = got["error"] and self.tells in got["text"]
        if not right:
            raise Failed(f"the result of {self.name} for {label}, {number} is {got}")
