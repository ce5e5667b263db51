"""A database server for engines that need one. It must not know which engine."""

import os
import shutil
import subprocess
from pathlib import Path

from engine import free_ports


def postgres(engine):
    """Starts a database server, and returns the command that queries it, and its address."""
    (port,) = free_ports(1)
    data, programs = engine.folder / "postgres", max(Path("/usr/lib/postgresql").glob("*/bin"))
    data.mkdir()
    as_user = []
    if os.geteuid() == 0:
        # It refuses to run as root.
        engine.folder.chmod(0o711)
        shutil.chown(data, "nobody", "nogroup")
        as_user = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]
    engine.run(*as_user, programs / "initdb", "--pgdata", data, "--username", "engine", "--auth", "trust", "--encoding",
               "UTF8", "--locale", "C", "--no-sync")
    engine.start(*as_user, programs / "postgres", "-D", data, "-k", data, "-p", port, "-c", "listen_addresses=127.0.0.1",
                 "-c", "fsync=off", "-c", "max_connections=300")
    address = f"postgresql://engine@127.0.0.1:{port}/postgres"
    query = [programs / "psql", address, "-tAc"]
    engine.wait_for(lambda: subprocess.run([*query, "select"], capture_output=True).returncode == 0)
    return query, address
