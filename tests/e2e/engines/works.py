"""What tools of the http adapter run, and what must come of it. It must not know the engine."""

from dataclasses import dataclass
from typing import Any

from peer import Failed


@dataclass(frozen=True)
class Work:
    """One tool: the workflow or DAG that it runs, which hands back its arguments, and what must come of it."""

    name: str
    runs: str
    # What is in the result beside the call's arguments.
    says: dict[str, Any]
    status: str = "SUCCEEDED"
    # What the text of a failure has.
    tells: str = ""
    # The client says yes to what is asked.
    accepts: bool = True
    asks: bool = False
    children: int = 0
    # These engines know a run by its id, which is the key.
    may_be_uncertain: bool = False
    begins: bool = True
    hurries: bool = False

    def arguments(self, label: str, number: int) -> dict[str, Any]:
        return {"label": label, "number": number, "kind": self.name}

    def check(self, got: dict[str, Any], label: str, number: int) -> None:
        """Fails unless this is what a call with this label must come to."""
        if self.status == "SUCCEEDED":
            right = got["structured"] == {**self.arguments(label, number), **self.says} and not got["error"]
        elif self.status == "CANCELLED":
            right = got["status"] == "cancelled"
        else:
            right = got["error"] and self.tells in got["text"]
        if not right:
            raise Failed(f"the result of {self.name} for {label}, {number} is {got}")
