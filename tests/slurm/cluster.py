"""A Slurm cluster of one node in a folder: munge, slurmctld, slurmd, and where wanted MariaDB with slurmdbd, and slurmrestd.

Everything listens on 127.0.0.1 or on sockets in the folder, runs as whoever starts it, and is stopped by process id. It must not
touch a Slurm that this machine may have besides.
"""

import ctypes
import getpass
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(HERE))

from ports import free_ports  # noqa: E402

# Slurm's commands that tests and backends call, each through tests/slurm/command.
COMMANDS = ["sbatch", "squeue", "sacct", "scontrol", "scancel", "sinfo", "sacctmgr", "sprio", "sstat"]
# Longer than anything takes to start on a busy machine.
PATIENCE = 120
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

# Where the kernel's first version of control groups is, on machines that have it.
CGROUPS = "/sys/fs/cgroup"

libc = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """What was asked for cannot be done, in words."""


def program(name):
    """Debian keeps the servers out of an ordinary user's path."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin")
    if not found:
        raise Refused(f"{name} is not installed: run tests/run --only packages")
    return found


def openapi_plugins():
    """The versions of its API that slurmrestd has for the controller; those for the accounting are others."""
    found = glob.glob("/usr/lib/*/slurm*/openapi_v*.so")
    return [os.path.basename(path).removesuffix(".so").replace("_", "/", 1).replace("_", ".") for path in found]


def until(what, check):
    began = time.monotonic()
    while not check():
        if time.monotonic() - began > PATIENCE:
            raise Refused(f"{what} did not happen within {PATIENCE} s")
        time.sleep(0.01)


class Cluster:
    def __init__(self, folder, options):
        self.folder = os.path.abspath(folder)
        self.options = options
        self.user = getpass.getuser()
        self.host = socket.gethostname().split(".")[0]
        self.running = {}
        # Whether the controller was ever killed.
        self.crashed = False
        # Slurm's control groups have the name of the node, and another cluster on this machine may have some, too.
        self.node = f"node{os.getpid()}" if options.cgroups else self.host
        names = ["slurmctld", "slurmd", "slurmdbd", "slurmrestd-jwt"]
        self.ports = dict(zip(names, free_ports(len(names))))
        # Jobs that outlive their slurmd become children of this process, which can then find them.
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def up(self):
        if self.options.cgroups and not os.access(f"{CGROUPS}/memory/tasks", os.W_OK):
            raise Refused(f"{CGROUPS}/memory cannot be written: limits of memory by control groups need root and their first version")
        for name in ["spool", "state", "log", "bin", "faults", "db", "work"]:
            os.makedirs(self.path(name), mode=0o755, exist_ok=True)
        self.write("munge.key", os.urandom(1024), 0o400)
        self.write("jwt.key", os.urandom(32), 0o600)
        self.write("calls", b"", 0o666)
        self.write("slurm.conf", self.slurm_conf().encode(), 0o644)
        # What the machine itself has of these must not be read.
        self.write("cgroup.conf", self.cgroup_conf().encode(), 0o644)
        # Files in place of devices: nobody opens them.
        for number in range(4):
            self.write(f"gpu{number}", b"", 0o644)
        self.write("gres.conf", f"AutoDetect=off\nName=gpu File={self.path('gpu[0-3]')}\n".encode(), 0o644)
        for name in COMMANDS:
            self.write(f"real-{name}", program(name).encode(), 0o644)
            os.symlink(os.path.join(HERE, "command"), self.path("bin", name))
        if self.options.accounting:
            self.write("slurmdbd.conf", self.slurmdbd_conf().encode(), 0o600)
        self.start("munged")
        if self.options.accounting:
            self.start("mariadbd")
            # slurmdbd keeps procedures there. The rest of what an installation has is of no use here, and takes long to make.
            with open("/usr/share/mysql/mysql_system_tables.sql") as tables:
                needed = [line for line in tables if line.startswith("CREATE TABLE IF NOT EXISTS proc ")]
            self.sql("create database mysql; use mysql;" + "".join(needed))
            self.sql("create database slurm_acct_db")
            self.start("slurmdbd")
        self.start("slurmctld")
        self.start("slurmd")
        if self.options.accounting:
            self.account()
        until("an idle node", lambda: "idle" in self.output("sinfo", "-h", "-o", "%T"))
        if self.options.rest:
            self.start("slurmrestd")
            self.start("slurmrestd-jwt")

    def told(self):
        """What whoever started the cluster wants to know."""
        told = {"folder": self.folder, "bin": self.path("bin"), "conf": self.path("slurm.conf"), "user": self.user}
        if self.options.rest:
            token = self.output("scontrol", "token", f"username={self.user}", "lifespan=86400").strip()
            told["rest"] = {
                "socket": self.path("rest.sock"),
                "address": f"http://127.0.0.1:{self.ports['slurmrestd-jwt']}",
                "token": token.removeprefix("SLURM_JWT="),
            }
        return json.dumps(told)

    # ------------------------------------------------------------------------------------------------------- servers

    def start(self, name):
        if name in self.running:
            raise Refused(f"{name} runs already")
        conf = self.path("slurm.conf")
        orders = {
            "munged": [
                "--foreground", "--force", f"--key-file={self.path('munge.key')}", f"--socket={self.path('munge.sock')}",
                f"--pid-file={self.path('munged.pid')}", f"--log-file={self.path('log', 'munged')}",
                f"--seed-file={self.path('munge.seed')}",
            ],
            "mariadbd": [
                "--no-defaults", f"--datadir={self.path('db')}", f"--socket={self.path('db.sock')}",
                f"--pid-file={self.path('db.pid')}", "--skip-networking", "--skip-grant-tables", "--performance-schema=OFF",
                "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M", "--innodb-lock-wait-timeout=900",
                "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync", "--innodb-doublewrite=OFF", "--sync-frm=OFF", "--innodb-temp-data-file-path=ibtmp1:4M:autoextend",
                f"--user={self.user}",
            ],
            "slurmdbd": ["-D"],
            "slurmctld": ["-D", "-f", conf],
            "slurmd": ["-D", "-f", conf, "-d", program("slurmstepd")],
            # One that knows its callers by the socket, and one that knows them by their tokens.
            "slurmrestd": ["-f", conf, "-a", "rest_auth/local", f"unix:{self.path('rest.sock')}"],
            "slurmrestd-jwt": ["-f", conf, "-a", "rest_auth/jwt", f"127.0.0.1:{self.ports['slurmrestd-jwt']}"],
        }
        if name not in orders:
            raise Refused(f"there is no {name}; there are: {', '.join(orders)}")
        if name.startswith("slurmrestd") and not self.options.accounting:
            # It does not start with a part that has nothing to talk to.
            orders[name] = ["-s", ",".join(openapi_plugins()), *orders[name]]
        environment = dict(os.environ, SLURM_CONF=conf)
        if name == "slurmdbd":
            environment.update(SLURM_CONF=self.path("slurmdbd.conf"), MYSQL_UNIX_PORT=self.path("db.sock"))
        # It may run as who runs the cluster: there is nobody else here.
        environment.update(SLURMRESTD_SECURITY="disable_user_check")
        if name == "slurmrestd-jwt":
            environment.update(SLURM_JWT="daemon")
        if name == "slurmrestd" and os.path.exists(self.path("rest.sock")):
            os.unlink(self.path("rest.sock"))
        with open(self.path("log", f"{name}.out"), "ab") as log:
            self.running[name] = subprocess.Popen(
                [program(name.removesuffix("-jwt")), *orders[name]], env=environment, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True, preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
            )
        until(f"that {name} answers", lambda: self.answers(name))

    def answers(self, name):
        if self.running[name].poll() is not None:
            with open(self.path("log", f"{name}.out")) as log:
                raise Refused(f"{name} ended: {log.read()[-2000:]}")
        if name == "munged":
            return self.succeeds(program("munge"), "-S", self.path("munge.sock"), "-n")
        if name == "mariadbd":
            return self.succeeds(program("mariadb"), "--no-defaults", f"--socket={self.path('db.sock')}", "-e", "select 1")
        if name == "slurmrestd":
            with socket.socket(socket.AF_UNIX) as probe:
                return probe.connect_ex(self.path("rest.sock")) == 0
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", self.ports[name])):
                return False
        return name != "slurmctld" or "is UP" in self.output("scontrol", "ping")

    def end(self, name, how):
        """Ends a server: `kill` leaves it no time, `stop` lets it save what it has."""
        ended = self.running.pop(name, None)
        if not ended:
            raise Refused(f"{name} does not run")
        self.crashed |= how == "kill"
        ended.send_signal(signal.SIGKILL if how == "kill" else signal.SIGTERM)
        ended.wait()

    def signal(self, name, which):
        if name not in self.running:
            raise Refused(f"{name} does not run")
        self.running[name].send_signal(which)

    def resume(self):
        """A controller that was killed may give a number to two jobs, and then takes the node out of use until somebody says otherwise:
        "Duplicate jobid"."""
        if self.crashed and "slurmctld" in self.running and "drain" in self.output("sinfo", "-h", "-p", "main", "-o", "%T"):
            self.output("scontrol", "update", f"nodename={self.node}", "state=resume")

    def reap(self):
        """Jobs that outlived their parents: they end as children of this process."""
        servers = {server.pid for server in self.running.values()}
        for pid in self.children():
            if pid not in servers:
                try:
                    os.waitpid(pid, os.WNOHANG)
                except ChildProcessError:
                    pass

    def children(self):
        return [pid for pid, parent in self.parents().items() if parent == os.getpid()]

    @staticmethod
    def parents():
        parents = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat") as stat:
                    parents[int(pid)] = int(stat.read().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                pass
        return parents

    def down(self):
        """Everything that descends from this process ends: servers, slurmstepd, and what jobs left."""
        while True:
            parents, mine = self.parents(), {os.getpid()}
            grown = True
            while grown:
                more = {pid for pid, parent in parents.items() if parent in mine} - mine
                mine |= more
                grown = bool(more)
            mine.discard(os.getpid())
            if not mine:
                break
            for pid in mine:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                pass
            time.sleep(0.01)
        shutil.rmtree(self.folder, ignore_errors=True)
        for place in glob.glob(f"{CGROUPS}/*/slurm_{self.node}"):
            # Its files are the kernel's, and go with it.
            for folder, _, _ in os.walk(place, topdown=False):
                os.rmdir(folder)

    # ------------------------------------------------------------------------------------------------------ commands

    def output(self, name, *arguments):
        environment = dict(os.environ, SLURM_CONF=self.path("slurm.conf"))
        try:
            done = subprocess.run(
                [program(name), *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=30, check=False,
            )
        except subprocess.TimeoutExpired:
            return ""
        return done.stdout

    def succeeds(self, *command):
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0

    def sql(self, text):
        order = [program("mariadb"), "--no-defaults", f"--socket={self.path('db.sock')}"]
        done = subprocess.run(order, input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Refused(f"MariaDB refused: {done.stderr}")

    def account(self):
        """Accounts `lab` and `other` whose members may use the quality of service `fast`, for a minute at most."""
        manage = lambda *what: self.output("sacctmgr", "-i", *what)
        until("that the accounting knows the cluster", lambda: "lab" in manage("-n", "show", "cluster", "format=cluster"))
        manage("add", "qos", "fast", "set", "MaxWall=00:01:00")
        manage("add", "account", "lab,other", "Description=lab", "Organization=lab", "qos=normal,fast", "defaultqos=normal")
        manage("add", "user", self.user, "account=lab,other", "DefaultAccount=lab")
        manage("modify", "user", self.user, "set", "DefaultAccount=lab")
        until("that the controller knows the account", lambda: "Account=lab" in self.output(
            "scontrol", "show", "assoc_mgr", "flags=assoc", "accounts=lab"))

    def write(self, name, content, mode):
        with open(os.open(self.path(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(content)

    # -------------------------------------------------------------------------------------------------------- config

    def slurm_conf(self):
        asked, ports, path = self.options, self.ports, self.path
        lines = [
            "ClusterName=lab",
            f"SlurmctldHost={self.host}(127.0.0.1)",
            f"SlurmUser={self.user}",
            f"SlurmdUser={self.user}",
            "AuthType=auth/munge",
            f"AuthInfo=socket={path('munge.sock')},cred_expire={asked.cred_expire}",
            "AuthAltTypes=auth/jwt",
            f"AuthAltParameters=jwt_key={path('jwt.key')}",
            "CredType=cred/munge",
            "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny",
            f"SlurmctldPort={ports['slurmctld']}",
            f"SlurmdPort={ports['slurmd']}",
            f"SlurmctldPidFile={path('slurmctld.pid')}",
            f"SlurmdPidFile={path('slurmd.pid')}",
            f"StateSaveLocation={path('state')}",
            f"SlurmdSpoolDir={path('spool')}",
            f"SlurmctldLogFile={path('log', 'slurmctld')}",
            f"SlurmdLogFile={path('log', 'slurmd')}",
            "ProctrackType=proctrack/linuxproc",
            f"TaskPlugin=task/{'cgroup' if asked.cgroups else 'none'}",
            "MpiDefault=none",
            "SwitchType=switch/none",
            "MailProg=/bin/true",
            "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_CPU_Memory",
            # The node has more processors than this machine, so that many jobs run side by side.
            "SlurmdParameters=config_overrides",
            "SchedulerType=sched/backfill",
            "SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0,sched_min_interval=1000",
            # As most sites have it: what no node of a partition could ever run is refused at once.
            "EnforcePartLimits=ALL",
            "ReturnToService=2",
            f"MinJobAge={asked.min_job_age}",
            "KillWait=2",
            "MessageTimeout=10",
            f"MaxJobCount={asked.max_jobs}",
            "MaxArraySize=1001",
            *(
                ["JobAcctGatherType=jobacct_gather/none"]
                if asked.quiet_accounting
                else [
                    "JobAcctGatherType=jobacct_gather/linux",
                    "JobAcctGatherFrequency=1",
                    f"JobAcctGatherParams={'NoOverMemoryKill' if asked.cgroups else 'OverMemoryKill'}",
                ]
            ),
            "DefMemPerCPU=50",
            "GresTypes=gpu",
            f"AccountingStorageType=accounting_storage/{'slurmdbd' if asked.accounting else 'none'}",
            f"NodeName={self.node} NodeHostname={self.host} NodeAddr=127.0.0.1 CPUs={asked.cpus} RealMemory={asked.cpus * 100} Gres=gpu:4 Feature=intel "
            "State=UNKNOWN",
            f"PartitionName=main Nodes={self.node} Default=YES MaxTime=1-00:00:00 DefaultTime=01:00:00 State=UP",
            f"PartitionName=short Nodes={self.node} MaxTime=00:01:00 State=UP",
            f"PartitionName=closed Nodes={self.node} State=DOWN",
        ]
        if asked.accounting:
            lines += [
                "AccountingStorageTRES=gres/gpu",
                "AccountingStoreFlags=job_comment",
                "AccountingStorageHost=127.0.0.1",
                f"AccountingStoragePort={ports['slurmdbd']}",
                f"AccountingStoragePass={path('munge.sock')}",
                "AccountingStorageEnforce=associations,limits,qos",
            ]
        elif asked.jobcomp:
            lines += ["JobCompType=jobcomp/filetxt", f"JobCompLoc={path('jobcomp')}"]
        return "\n".join([*lines, *asked.set, ""])

    def cgroup_conf(self):
        if not self.options.cgroups:
            return ""
        lines = ["CgroupPlugin=cgroup/v1", f"CgroupMountpoint={CGROUPS}", "ConstrainRAMSpace=yes", ""]
        return "\n".join(lines)

    def slurmdbd_conf(self):
        path = self.path
        return "\n".join([
            "AuthType=auth/munge",
            f"AuthInfo=socket={path('munge.sock')}",
            "AuthAltTypes=auth/jwt",
            f"AuthAltParameters=jwt_key={path('jwt.key')}",
            "DbdHost=localhost",
            "DbdAddr=127.0.0.1",
            f"DbdPort={self.ports['slurmdbd']}",
            "CommunicationParameters=NoInAddrAny",
            f"SlurmUser={self.user}",
            f"LogFile={path('log', 'slurmdbd')}",
            f"PidFile={path('slurmdbd.pid')}",
            "StorageType=accounting_storage/mysql",
            "StorageHost=localhost",
            "StorageUser=slurm",
            "StoragePass=slurm",
            "StorageLoc=slurm_acct_db",
            "",
        ])
