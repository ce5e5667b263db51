"""A cluster that is reached by slurmrestd, over TCP and with a token, whose replies are lost and which is throttled like another web API. Its
controller is left in peace: what its crashes do to jobs is the same by whichever way the bridge speaks to it.
"""

from proxy import Proxy
from slurm import Script, Slurm, scripts

# How likely an answer is lost, by what is asked.
LOSSES = {"submit": 0.15, "change": 0.15, "jobs": 0.1, "accounting": 0.1, "cancel": 0.2}
THROTTLED = (503, b'{"errors": [{"error": "too many requests", "error_number": 9001}]}', "content-type: application/json\r\n")
# By the method, what is asked of a job.
ACTS = {"POST": "change", "DELETE": "cancel", "GET": "job"}


def name_of(method: str, path: str, _headers: dict[str, str]) -> str:
    """What a request is, in a word."""
    path = path.partition("?")[0]
    if path.startswith("/slurmdb/"):
        return "accounting"
    last = path.rpartition("/")[2]
    return ACTS[method] if last.isdecimal() else {"submit": "submit", "jobs": "jobs"}.get(last, "other")


class SlurmRest(Slurm):
    options = ["--accounting", "--cpus", "100", "--rest"]
    # Of commands, which the bridge runs none of.
    losses: dict[str, float] = {}
    peaceful = True

    def between(self, seed: int) -> Proxy:
        self.moments = ("submit", "submit", "change")
        port = int(self.told["rest"]["address"].rpartition(":")[2])
        return Proxy(port, LOSSES, seed, name_of, THROTTLED)

    def scripts(self) -> list[Script]:
        return scripts()

    def backend(self, name: str, more: str) -> str:
        proxy, told = self.proxies["slurm"], self.told
        assert isinstance(proxy, Proxy)
        rest = f'url = "http://127.0.0.1:{proxy.port}", user = "{told["user"]}", token = "{told["rest"]["token"]}"'
        return (
            f'[backends.{name}]\nkind = "slurm"\nrest = {{ {rest} }}\njobs_dir = "{self._work}/{name}"\n'
            f'env = {{ RUNS = "{self._runs}" }}\n{more}'
        )
