"""The same jobs through Debian's Slurm on this machine: an anchor from the field.

Its daemons run on loopback in a folder of their own: one node that offers as many CPUs as there are
GPUs, one CPU a job, no accounting, and the defaults of its scheduler.
"""

import contextlib
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.benchmarks.control_plane.job_program import job_script, read_times
from tests.environment.programs import NotReady, Program, free_port, temporary_home

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo", "squeue")
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
READY_SECONDS = 60
CONFIGURATION = """
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={home}/munge.socket
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
SlurmdParameters=config_overrides
ReturnToService=2
MaxJobCount=50000
MaxArraySize=50001
NodeName=bench NodeHostname={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=1024 State=UNKNOWN
PartitionName=bench Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def slurm_figures(jobs: int, slots: int, submitters: int, seconds: float) -> dict[str, Any]:
    """Jobs a second, submitted one by one and as one array; None with the reason where Slurm is not
    installed or does not start."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if missing:
        return _none(f"not installed: {', '.join(missing)} (Debian: slurmctld slurmd slurm-client)")
    try:
        with temporary_home("slurm") as home, _running(home, slots) as environ:
            submit = _Submits(environ, home, seconds)
            return {
                "submitted_jobs_per_s": submit.by_clients(jobs, submitters),
                "array_jobs_per_s": submit.array(jobs),
            }
    except (NotReady, subprocess.CalledProcessError) as error:
        return _none(str(error))


def _none(reason: str) -> dict[str, Any]:
    return {"submitted_jobs_per_s": None, "array_jobs_per_s": None, "reason": reason}


class _Submits:
    def __init__(self, environ: dict[str, str], home: Path, seconds: float) -> None:
        self.environ, self.home, self.seconds = environ, home, seconds

    def by_clients(self, jobs: int, submitters: int) -> float:
        """Each client calls sbatch again and again."""
        script, times = self._script("SLURM_JOB_ID")
        begun = time.monotonic()
        with ThreadPoolExecutor(submitters) as pool:
            list(pool.map(lambda _: self._sbatch(script), range(jobs)))
        return self._until_ended(times, jobs, begun)

    def array(self, jobs: int) -> float:
        script, times = self._script("SLURM_ARRAY_TASK_ID")
        begun = time.monotonic()
        self._sbatch(script, f"--array=0-{jobs - 1}")
        return self._until_ended(times, jobs, begun)

    def _script(self, key: str) -> tuple[Path, Path]:
        script, times = self.home / f"{key}.sh", self.home / f"{key}.times"
        script.write_text(f"#!/bin/bash\n{job_script(self.seconds, times, key)}\n")
        return script, times

    def _sbatch(self, script: Path, *options: str) -> None:
        self._run("sbatch", "--output=/dev/null", f"--chdir={self.home}", *options, str(script))

    def _until_ended(self, times: Path, jobs: int, begun: float) -> float:
        end = begun + jobs + READY_SECONDS
        while len(read_times(times)) < jobs or self._run("squeue", "-h").strip():
            if time.monotonic() > end:
                raise NotReady(f"Slurm ended {len(read_times(times))} of {jobs} jobs")
            time.sleep(0.05)
        return round(jobs / (time.monotonic() - begun), 1)

    def _run(self, *command: str) -> str:
        return subprocess.run(
            command, env=self.environ, check=True, capture_output=True, text=True
        ).stdout


@contextlib.contextmanager
def _running(home: Path, cpus: int) -> Iterator[dict[str, str]]:
    """Munge, the controller and one node; the environment of Slurm's commands."""
    environ = os.environ | {"PATH": PATH, "SLURM_CONF": str(home / "slurm.conf")}
    configuration = CONFIGURATION.format(
        host=socket.gethostname(),
        controller_port=free_port(),
        node_port=free_port(),
        user=_user(),
        home=home,
        cpus=cpus,
    )
    (home / "slurm.conf").write_text(configuration)
    (home / "state").mkdir()
    (home / "spool").mkdir()
    key = home / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    files = {"socket": "munge.socket", "pid-file": "munge.pid", "seed-file": "munge.seed"}
    words = [f"--{option}={home / name}" for option, name in files.items()]
    munge = ["munged", "--foreground", "--force", f"--key-file={key}", *words]
    with contextlib.ExitStack() as stack:
        for command in (munge, ["slurmctld", "-D", "-i"], ["slurmd", "-D", "-N", "bench"]):
            program = _start(stack, command, home, environ)
            if command is munge:
                program.wait_ready((home / "munge.socket").exists, seconds=READY_SECONDS)
        program.wait_ready(lambda: _is_idle(environ), seconds=READY_SECONDS)
        yield environ


def _start(
    stack: contextlib.ExitStack, command: list[str], home: Path, environ: dict[str, str]
) -> Program:
    full = [shutil.which(command[0], path=PATH) or command[0], *command[1:]]
    program = Program(full, log=home / f"{command[0]}.log", environ=environ)
    stack.callback(program.kill)
    return program


def _is_idle(environ: dict[str, str]) -> bool:
    command = ["sinfo", "-h", "-o", "%t"]
    found = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    return found.stdout.strip() == "idle"


def _user() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name
