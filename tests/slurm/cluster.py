"""A Slurm of one node, alive for the length of a `with`: munged, slurmctld and slurmd on loopback.

    with Cluster(cpus=4) as cluster:
        cluster.run("sbatch", "job.sh")

Everything lives in one temporary folder and on free ports; no configuration, key or service of the
machine is used. A process of its own, the reaper, waits for the end of this one, however it comes
(also SIGKILL), and then kills whatever the cluster has started and removes the folder.
"""

import ctypes
import getpass
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "scontrol", "sinfo", "squeue")
SEARCH_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
POLL_S = 0.02
START_S = 60
PR_SET_CHILD_SUBREAPER = 36  # of <linux/prctl.h>

CONFIGURATION = """\
ClusterName=stepsim
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
SlurmdParameters=config_overrides
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
KillWait=1
NodeName=node NodeHostname={host} NodeAddr=127.0.0.1 Port={node_port} CPUs={cpus} State=UNKNOWN
PartitionName=main Nodes=node Default=YES MaxTime=INFINITE State=UP
"""


def missing_programs():
    return [name for name in PROGRAMS if shutil.which(name, path=SEARCH_PATH) is None]


def wait_until(condition, what, seconds):
    """Returns what `condition` returns, once that is true; TimeoutError otherwise."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(POLL_S)
    raise TimeoutError(f"after {seconds} s still waiting for {what}")


def processes_with(marker):
    """The processes whose environment holds `marker`, but for this one."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if marker in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue  # ended meanwhile, or of another user
    return found


def collect_orphans():
    """Takes the exit status of processes whose parents have ended before them."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        pass


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Reaper:
    """Kills and removes what is left, as soon as `release` is called or this process ends."""

    CALM_ROUNDS = 10 # without a process before the end is believed
    LONGEST_S = 20

    def __init__(self, folder, marker):
        for_child, self._held = os.pipe()  # closed on exec: no daemon keeps it open
        self._child = os.fork()
        if self._child == 0:
            self._wait_and_reap(for_child, folder, marker)
        os.close(for_child)

    def release(self):
        os.close(self._held)
        _, status = os.waitpid(self._child, 0)
        return os.waitstatus_to_exitcode(status) == 0

    def _wait_and_reap(self, pipe, folder, marker):
        status = 1
        try:
            os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            os.close(self._held)
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in range(3):
                os.dup2(nothing, descriptor)
            os.read(pipe, 1)
            status = 0 if self._reap(folder, marker) else 1
        finally:
            os._exit(status)

    def _reap(self, folder, marker):
        deadline = time.monotonic() + self.LONGEST_S
        calm = 0
        while calm < self.CALM_ROUNDS and time.monotonic() < deadline:
            found = processes_with(marker)
            for process in found:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            calm = 0 if found else calm + 1
            time.sleep(POLL_S)
        shutil.rmtree(folder, ignore_errors=True)
        return calm == self.CALM_ROUNDS and not os.path.exists(folder)


class Cluster:
    def __init__(self, cpus):
        self.cpus = cpus
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="stepsim-slurm-"))
        configuration = self.folder / "slurm.conf"
        self.marker = f"SLURM_CONF={configuration}".encode()
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(("SLURM", "SBATCH", "SQUEUE", "SCONTROL", "MUNGE"))}
        self.environment = dict(clean, SLURM_CONF=str(configuration), PATH=SEARCH_PATH)
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._reaper = Reaper(self.folder, self.marker)

    def __enter__(self):
        try:
            self._write_files()
            self._start_daemons()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind, error, trace):
        if not self._stop() and kind is None:
            raise RuntimeError("a process or the folder of the cluster could not be removed")

    def _stop(self):
        is_clean = self._reaper.release()
        for daemon in self._daemons:
            daemon.wait()
        collect_orphans()
        return is_clean and not processes_with(self.marker)

    _daemons = ()

    def _write_files(self):
        self.folder.chmod(0o755)  # munged refuses a socket where others cannot come
        for name in ("state", "spool", "log", "jobs"):
            (self.folder / name).mkdir(mode=0o755)
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        controller_port, node_port = free_ports(2)
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            folder=self.folder, host=socket.gethostname().split(".")[0], user=getpass.getuser(),
            controller_port=controller_port, node_port=node_port, cpus=self.cpus),
            encoding="utf-8")
        (self.folder / "cgroup.conf").touch()

    def _start(self, name, *arguments):
        with open(self.folder / "log" / f"{name}.log", "wb") as log:
            daemon = subprocess.Popen(
                [shutil.which(name, path=SEARCH_PATH), *arguments], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, env=self.environment, cwd=self.folder / "log",
                start_new_session=True)
        self._daemons = (*self._daemons, daemon)

    def _start_daemons(self):
        folder = self.folder
        self._start("munged", "--foreground", f"--key-file={folder}/munge.key",
                    f"--socket={folder}/munge.socket", f"--pid-file={folder}/munged.pid",
                    f"--log-file={folder}/log/munged.log", f"--seed-file={folder}/munged.seed")
        wait_until(lambda: (folder / "munge.socket").exists(), "munged's socket", START_S)
        self._start("slurmctld", "-D", "-f", str(folder / "slurm.conf"))
        self._start("slurmd", "-D", "-f", str(folder / "slurm.conf"), "-N", "node")
        wait_until(self._is_idle, "the node to become idle", START_S)

    def _is_idle(self):
        for daemon in self._daemons:
            if daemon.poll() is not None:
                raise RuntimeError(f"{daemon.args[0]} ended with {daemon.returncode}")
        result = self.run("sinfo", "--noheader", "--format=%T", is_checked=False)
        return result.returncode == 0 and result.stdout.strip() == "idle"

    def run(self, *command, is_checked=True, **variables):
        """Runs a client of the cluster to its end, in the folder of the jobs."""
        result = subprocess.run(command, capture_output=True, text=True, timeout=START_S,
                                check=False, cwd=self.jobs, env={**self.environment, **variables})
        if is_checked and result.returncode != 0:
            raise RuntimeError(f"{command[0]} failed: {result.stderr}")
        return result

    @property
    def jobs(self):
        return self.folder / "jobs"

    def logs(self):
        """The ends of all logs, to say what went wrong."""
        files = sorted([*self.folder.glob("log/*.log"), *self.jobs.glob("*.log")])
        return "\n".join(f"--- {file.name}\n" + "\n".join(
            file.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
            for file in files)
