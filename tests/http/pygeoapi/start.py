"""Starts pygeoapi, with the processes of processes.py."""

import json
from pathlib import Path

from engine import answers, free_ports


def start(engine, target):
    (port,) = free_ports(1)
    folder, bin_folder, here = engine.folder, target / "bin", Path(__file__).parent
    for name in ["starts", "results"]:
        (folder / name).mkdir()
    base = f"http://127.0.0.1:{port}"
    names = ["Greet", "Refuse", "Wait", "Repeat", "Later", "Plain", "Sync"]
    config = {
        "server": {
            "bind": {"host": "127.0.0.1", "port": port}, "url": base, "mimetype": "application/json; charset=UTF-8",
            "encoding": "utf-8", "languages": ["en-US"], "map": {"url": base, "attribution": "none"},
            "limits": {"default_items": 2, "max_items": 1000},
            "manager": {"name": "TinyDB", "connection": str(folder / "jobs.db"), "output_dir": str(folder / "results")},
        },
        "logging": {"level": "ERROR"},
        "metadata": {
            "identification": {"title": "test", "description": "test", "keywords": ["test"],
                               "keywords_type": "theme", "terms_of_service": base, "url": base},
            "license": {"name": "none", "url": base}, "provider": {"name": "test", "url": base},
            "contact": {"name": "test", "position": "test"},
        },
        "resources": {name.lower(): {"type": "process", "processor": {"name": f"processes.{name}"}} for name in names},
    }
    # YAML is a superset of JSON.
    (folder / "config.yml").write_text(json.dumps(config))
    settings = {"PYGEOAPI_CONFIG": str(folder / "config.yml"), "PYGEOAPI_OPENAPI": str(folder / "openapi.yml"),
                "PYTHONPATH": str(here), "PYTHONDONTWRITEBYTECODE": "1", "STARTS": str(folder / "starts")}
    engine.run(bin_folder / "pygeoapi", "openapi", "generate", folder / "config.yml", "--output-file",
               folder / "openapi.yml", **settings)
    engine.start(bin_folder / "flask", "--app", "pygeoapi.flask_app:APP", "run", "--host", "127.0.0.1", "--port", port,
                 **settings)
    engine.wait_for(answers(f"{base}/processes?f=json"))
    return port
