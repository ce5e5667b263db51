"""A Toil workflow of the kind `py`, for tests of the http adapter: does what its parameter `do` says, and leaves a line in
STARTS/KEY. Toil starts it in a folder of the run."""

import json
import os
import sys
import time
from pathlib import Path

parameters = json.loads(Path("wes_inputs.json").read_text())
with (Path(os.environ["STARTS"]) / parameters["key"]).open("a") as starts:
    starts.write("started\n")
match parameters["do"]:
    case "print":
        print(f"to standard output, for {parameters['key']}")
        sys.stderr.write("first line\nsecond line\nthird line\n")
    case "fail":
        sys.exit("out of luck")
    case "sleep":
        time.sleep(1200)
