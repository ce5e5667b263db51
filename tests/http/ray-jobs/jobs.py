"""Jobs of Ray, for tests of the http adapter (serve.py). Each start leaves a line in STARTS/KEY."""

import json
import os
import sys
import time
from pathlib import Path

arguments = json.loads(os.environ["TASKBRIDGE_ARGUMENTS"])
with (Path(os.environ["STARTS"]) / os.environ["TASKBRIDGE_KEY"]).open("a") as starts:
    starts.write("started\n")
match sys.argv[1:]:
    case ["greet"]:
        print(json.dumps({"said": f"hello {arguments['who']}"}))
    case ["fail"]:
        sys.exit("out of luck")
    case ["wait"]:
        time.sleep(1200)
    case ["show"]:
        print("first line\nsecond line\nthird line")
    case ["broken"]:
        print('{"said": ')
    case ["words", *words]:
        print(json.dumps({"words": words, "arguments": arguments}))
