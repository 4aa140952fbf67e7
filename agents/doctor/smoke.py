"""One container for each way to pass a GPU, run as a job's would be: on a whole GPU and on a slice.

The checks read what a machine has; this shows what a container gets. The containers belong to a
node of their own, so that no agent takes them for its own, and are removed afterwards.
"""

import re
import secrets
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from docker.errors import DockerException

from agents.admission.policy import NodePolicy
from agents.contract.documents import DesiredReplica, Rendezvous, RuntimeKind
from agents.doctor.machine import Machine
from agents.host.container_toolkit import read_container_toolkit
from agents.runtime.base import ContainerPhase, ContainerStatus, EngineUnreachable, RuntimeFailure
from agents.runtime.docker import DockerRuntime
from agents.runtime.image_pull import ImageAbsent
from agents.runtime.injection import InjectionPath, choose_injection, path_refusals

END_SECONDS = 120.0
MAX_LOG_BYTES = 16 << 10
# What the container sees, a line each. A call of CUDA itself needs a Python in the image.
SHELL_PROGRAM = """
echo "uid=$(id -u)"
echo "devices=$TESSERA_DEVICES"
for file in /dev/nvidia* /dev/nvidia-caps/*; do [ ! -c "$file" ] || echo "file=$file"; done
if command -v nvidia-smi > /dev/null; then nvidia-smi -L 2>&1; echo "smi=$?"
else echo "smi=absent"; fi
if command -v python3 > /dev/null; then python3 -c "$1" "$2"; else echo "cuda=untried"; fi
"""
CUDA_PROGRAM = Path(__file__).with_name("cuda_program.py").read_text("utf-8")
MEMORY_MIB = 512
# A context of CUDA, and memory of the host that is copied from.
BANDWIDTH_MEMORY_MIB = 2_048
_UUID = re.compile(r"UUID: ((?:GPU|MIG)-[0-9a-zA-Z/-]+)\)")


class SmokeVerdict(StrEnum):
    OK = "ok"
    FAILED = "failed"
    # Nothing was run; `why` says what is missing.
    NOT_TRIED = "untried"


@dataclass(frozen=True, slots=True)
class SmokeResult:
    """What one container showed."""

    # The way to pass the device; empty for the container without a device.
    path: str
    # "whole GPU", "slice" or "no device".
    device: str
    verdict: SmokeVerdict
    why: str
    # What it printed.
    saw: tuple[str, ...] = ()
    # Whether the agent would choose this way.
    is_chosen: bool = False


@dataclass(frozen=True, slots=True)
class _Trial:
    path: InjectionPath
    device: str
    # Empty for the container without a device.
    uuid: str = ""


def smoke_test(machine: Machine, image: str, *, measures: bool = False) -> tuple[SmokeResult, ...]:
    """Run all containers, one after the other. `measures`: each with a device copies some memory,
    which jobs on that device notice."""
    info = machine.engine
    if info is None:
        why = f"the agent cannot use the Docker Engine: {machine.engine_failure}"
        return (SmokeResult("", "no device", SmokeVerdict.NOT_TRIED, why),)
    toolkit = read_container_toolkit(machine, machine.policy.nvidia_ctk)
    chosen = choose_injection(machine.policy, info, toolkit).path
    refusals = path_refusals(machine.policy, info, toolkit)
    results = [_run(machine.policy, _Trial(chosen, "no device"), image, measures=False)]
    results[0] = replace(results[0], path="", is_chosen=True)
    for path in InjectionPath:
        for trial, missing in _trials(machine, path):
            if why := refusals[path] or missing:
                result = SmokeResult(path, trial.device, SmokeVerdict.NOT_TRIED, why)
            else:
                result = _run(machine.policy, trial, image, measures=measures)
            results.append(replace(result, is_chosen=path is chosen))
    return tuple(results)


def has_failed(results: Iterable[SmokeResult]) -> bool:
    """Whether jobs of this node would fail as well: a way that is not chosen does not count."""
    return any(r.verdict is SmokeVerdict.FAILED and r.is_chosen for r in results)


def container_problem(lines: Iterable[str], uuid: str, user: int) -> str:
    """What is wrong with what a container saw; empty if all is well. `uuid`: of its device; empty
    for one that has none. `user`: the uid that it should have. Pure."""
    lines = list(lines)
    named = [line for line in lines if re.match(r"(uid|devices|smi|cuda|bandwidth)=", line)]
    printed = dict(line.split("=", 1) for line in named)
    files = [line for line in lines if line.startswith("file=")]
    listed = set(_UUID.findall("\n".join(lines)))
    if printed.get("uid") != str(user):
        return f"it ran as uid {printed.get('uid', 'unknown')}, not as {user}"
    if printed.get("devices") != uuid:
        return f"TESSERA_DEVICES was {printed.get('devices', 'not set')!r}, not {uuid!r}"
    if not uuid:
        return f"it has device files without a device: {', '.join(files)}" if files else ""
    if printed.get("smi") == "absent":
        return "it has no nvidia-smi, so the driver's programs and libraries were not added"
    if printed.get("smi") != "0":
        return f"nvidia-smi -L ended with {printed.get('smi', 'no status')}"
    slices = {name for name in listed if name.startswith("MIG-")}
    visible = slices if uuid.startswith("MIG-") else listed
    if visible != {uuid}:
        return f"it sees {', '.join(sorted(visible)) or 'no device'}, and was given {uuid}"
    problem = _cuda_problem(printed.get("cuda", "no answer"))
    if not problem and printed.get("bandwidth", "").startswith("error"):
        return f"its memory could not be copied: {printed['bandwidth']}"
    return problem


def _cuda_problem(cuda: str) -> str:
    if cuda in ("1", "untried"):
        return ""
    if cuda == "absent":
        return "it has no libcuda.so.1, so the driver's libraries were not added"
    return f"CUDA sees {cuda} devices" if cuda.isdigit() else f"CUDA does not start: {cuda}"


def _trials(machine: Machine, path: InjectionPath) -> Iterator[tuple[_Trial, str]]:
    """A whole GPU and a slice, each with what is missing to try it."""
    driver = machine.driver
    gpus = driver.gpus if driver is not None else ()
    nothing = "" if gpus else "there is no GPU"
    whole_gpu = next((gpu.uuid for gpu in gpus if not gpu.mig_current), "")
    mig_slice = driver.slices[0] if driver is not None and driver.slices else ""
    missing = "" if whole_gpu else nothing or "every GPU is in MIG mode"
    yield _Trial(path, "whole GPU", whole_gpu), missing
    yield _Trial(path, "slice", mig_slice), "" if mig_slice else nothing or "no slice is carved"


def _run(policy: NodePolicy, trial: _Trial, image: str, *, measures: bool) -> SmokeResult:
    """One container, as the agent runs it for a job."""
    name = f"doctor-{secrets.token_hex(4)}"
    replica = DesiredReplica(
        id=name,
        job=name,
        image=image,
        command=("sh", "-c", SHELL_PROGRAM, "sh", CUDA_PROGRAM, "bandwidth" if measures else ""),
        memory_mib=BANDWIDTH_MEMORY_MIB if measures else MEMORY_MIB,
    )
    untried = SmokeResult(trial.path, trial.device, SmokeVerdict.NOT_TRIED, "")
    if why := policy.refusal(replica, RuntimeKind.DOCKER):
        return replace(untried, why=f"{why}: name another with --smoke-image")
    with tempfile.TemporaryDirectory(prefix="tessera-doctor-") as folder:
        try:
            fixed = replace(policy, device_injection=str(trial.path))
            runtime = DockerRuntime(Path(folder) / "logs", name, fixed)
        except RuntimeFailure as failure:
            return replace(untried, why=failure.sentence)
        try:
            runtime.require_image(policy.wanted_image(replica))
            lines = _lines_of(runtime, replica, (trial.uuid,) if trial.uuid else ())
        except ImageAbsent:
            return replace(untried, why=f"the engine has no image {image}: docker pull {image}")
        except (RuntimeFailure, EngineUnreachable, DockerException) as failure:
            return replace(untried, verdict=SmokeVerdict.FAILED, why=str(failure))
        finally:
            runtime.close()
    problem = container_problem(lines, trial.uuid, policy.user)
    verdict = SmokeVerdict.FAILED if problem else SmokeVerdict.OK
    return replace(
        untried, verdict=verdict, why=problem or success_sentence(lines, trial.uuid), saw=lines
    )


def success_sentence(lines: Sequence[str], uuid: str) -> str:
    """Of a container that saw what it should. `uuid`: of its device, empty for none. Pure."""
    if not uuid:
        return "it ran as a job does, and saw no GPU"
    if "cuda=1" not in lines:
        return f"it saw {uuid} alone; CUDA was not tried, since the image has no python3"
    rates = next((line for line in lines if line.startswith("bandwidth=")), "")
    inside, _, host = rates.removeprefix("bandwidth=").partition(" ")
    copies = f"; copies at {inside} GB/s in its memory, {host} GB/s from the host" if host else ""
    return f"it saw {uuid} alone{copies}"


def _lines_of(
    runtime: DockerRuntime, replica: DesiredReplica, devices: tuple[str, ...]
) -> tuple[str, ...]:
    """What the container printed. Its container and network are gone afterwards."""
    news = threading.Event()
    runtime.watch(news.set)
    try:
        runtime.prepare(replica, devices)
        seen = runtime.containers()[replica.id]
        runtime.start(replica, devices, Rendezvous(seen.address, seen.port, (seen.address,)))
        ended = _ended(runtime, replica.id, news)
        log = runtime.log(replica.id, 0, MAX_LOG_BYTES).decode("utf-8", "replace")
        if ended.exit_code and "uid=" not in log:
            why = f"it ended with {ended.exit_code}: {ended.sentence or log.strip()}"
            raise RuntimeFailure("smoke", why)
        return tuple(log.splitlines())
    finally:
        runtime.stop(replica.id, 0)
        runtime.remove(replica.id)
        runtime.tidy()


def _ended(runtime: DockerRuntime, replica_id: str, news: threading.Event) -> ContainerStatus:
    deadline = time.monotonic() + END_SECONDS
    while True:
        news.clear()
        seen = runtime.containers().get(replica_id)
        if seen is not None and seen.phase is ContainerPhase.EXITED:
            return seen
        if not news.wait(max(0.0, deadline - time.monotonic())):
            raise RuntimeFailure("smoke", f"it did not end within {END_SECONDS:.0f} s")
