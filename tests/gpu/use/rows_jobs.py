"""Rows 10 and 11: what a job finds, and how its ranks meet, on this driver and without Docker."""

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from agents.contract.documents import DesiredReplica, Device, Rendezvous
from agents.launchers.launch import replica_environment
from agents.workspace.environment import usual_variables
from agents.workspace.folders import ReplicaFolders, folders_below
from tests.gpu.use.clients import running
from tests.gpu.use.mps_room import JOB_USER
from tests.gpu.use.ports import free_port
from tests.gpu.use.pytorch import require_torch
from tests.gpu.use.record import PROGRAMS, NotPossible, Record, lines_of
from tests.gpu.use.rows_driver import opened

LIBRARIES_SECONDS = 85
RANKS_SECONDS = 30.0
# No resolver knows it: RFC 6761.
UNRESOLVABLE = "tessera-rank.invalid"
# Where the driver's own libraries are, which a container's linker finds without them.
KEPT = ("PATH", "LANG", "LD_LIBRARY_PATH")


def job_environment(record: Record) -> None:
    """Row 10: with the folders, the user and the environment that every job gets."""
    require_torch(record)
    if os.geteuid() != 0:
        raise NotPossible(f"only root can become uid {JOB_USER}")
    with opened() as nvml:
        uuid = nvml.devices()[0].uuid
    with tempfile.TemporaryDirectory(prefix="job-") as name:
        work = Path(name)
        work.chmod(0o755)
        for program in ("job_libraries.py", "add_one.py"):
            shutil.copyfile(PROGRAMS / program, work / program)
            (work / program).chmod(0o644)
        folders = folders_below(work)
        for folder in folders.writable:
            folder.mkdir()
            os.chown(folder, JOB_USER, JOB_USER)
        record.step("as a job has it", lambda: _libraries(record, work, uuid, folders))


def collectives(record: Record) -> None:
    """Row 11."""
    require_torch(record)
    for name, backend, world, env, hostname in (
        ("nccl, 1 rank", "nccl", 1, {}, ""),
        ("nccl, 2 ranks on one GPU", "nccl", 2, {}, ""),
        ("nccl, 2 ranks, allowed", "nccl", 2, {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}, ""),
        ("gloo, 2 ranks", "gloo", 2, {}, ""),
        ("gloo, 2 ranks, unresolvable host", "gloo", 2, {}, UNRESOLVABLE),
    ):
        record.step(
            name,
            lambda backend=backend, world=world, env=env, hostname=hostname: _ranks(
                record, backend, world, env, hostname
            ),
        )


def _libraries(record: Record, work: Path, uuid: str, folders: ReplicaFolders) -> dict[str, Any]:
    words = record.words_of(
        [sys.executable, str(work / "job_libraries.py")], seconds=LIBRARIES_SECONDS,
        env=_environment(uuid, folders), cwd=folders.scratch,
        user=JOB_USER, group=JOB_USER, extra_groups=[], umask=0o022,
    )  # fmt: skip
    return words | {"lines": lines_of(words["stdout"])}


def _environment(uuid: str, folders: ReplicaFolders) -> dict[str, str]:
    """That of a job with this GPU, and nothing of ours."""
    device = Device(allocation="a-1", slice="s-1", gpu_uuid=uuid)
    replica = DesiredReplica(id="r-1", job="j-1", devices=(device,))
    meeting = Rendezvous("127.0.0.1", free_port())
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    usual = usual_variables(replica, folders)
    ours = replica_environment(replica, [uuid], meeting, folders)
    return kept | usual | ours | {"CUDA_VISIBLE_DEVICES": uuid}


def _ranks(
    record: Record, backend: str, world: int, env: dict[str, str], hostname: str
) -> list[dict[str, Any]]:
    port = str(free_port())
    words = {"NCCL_DEBUG": "WARN", "NCCL_DEBUG_FILE": "/dev/stderr", **env}
    last = (hostname,) if hostname else ()
    with contextlib.ExitStack() as stack:
        ranks = [
            stack.enter_context(
                running(
                    record, "collective", backend, str(rank), str(world), port, *last, env=words
                )
            )
            for rank in range(world)
        ]
        return [rank.until_end(RANKS_SECONDS) for rank in ranks]
