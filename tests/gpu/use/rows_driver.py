"""Rows 1 to 4 and 12: what the driver says of the board, how fast, by which files, and which names
make a device visible. They use no GPU memory, but for row 12's contexts."""

import contextlib
import ctypes
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pynvml

from agents.health.watch import HealthWatch
from agents.nvml.health import EventSet, read_health
from agents.nvml.processes import gpu_processes
from agents.nvml.profiles import read_profiles
from agents.nvml.session import Nvml
from agents.nvml.telemetry import Sensors
from tests.gpu.gpm import activity
from tests.gpu.questions import answer
from tests.gpu.use.record import NotPossible, Record, lines_of, own_program

SMI = "nvidia-smi"
NOBODY = "GPU-00000000-0000-0000-0000-000000000000"
# Of nvml.h: whether MIG profiles can be asked for while MIG is off; MIG without a reset.
FIELDS = {
    "is_mig_mode_independent": pynvml.NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE,
    "is_resetless_mig": pynvml.NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED,
}
THREADS, TIMES, FEW = 4, 200, 20


class ProfileInfoV3(ctypes.Structure):
    """nvmlGpuInstanceProfileInfo_v3_t of nvml.h, which pynvml lacks."""

    _fields_ = [
        *((name, ctypes.c_uint) for name in (
            "version", "id", "sliceCount", "instanceCount", "multiprocessorCount",
            "copyEngineCount", "decoderCount", "encoderCount", "jpegCount", "ofaCount",
        )),
        ("memorySizeMB", ctypes.c_ulonglong),
        ("name", ctypes.c_char * pynvml.NVML_DEVICE_NAME_V2_BUFFER_SIZE),
        ("capabilities", ctypes.c_uint),
    ]  # fmt: skip


def board(record: Record) -> None:
    """Row 1."""
    for words in (
        ("-q", "-x"), ("-L",), ("topo", "-m"), ("mig", "-lgip"), ("mig", "-lgipp"), ("--version",),
    ):  # fmt: skip
        record.program(" ".join((SMI, *words)), (SMI, *words))
    with opened() as nvml:
        record.step("versions", lambda: asdict(nvml.versions()))
        record.step("GPUs", pynvml.nvmlDeviceGetCount)
        for gpu in nvml.devices():
            at, handle = f"gpu{gpu.index}", pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
            record.step(f"{at} facts", lambda gpu=gpu: asdict(gpu))
            record.step(f"{at} fields", lambda handle=handle: _fields(handle))
            record.step(
                f"{at} profiles", lambda gpu=gpu: [asdict(p) for p in read_profiles(gpu.uuid)]
            )
            for version in (2, 3):
                record.step(
                    f"{at} profiles by V{version}",
                    lambda handle=handle, version=version: _profiles(handle, version),
                )


def latency(record: Record) -> None:
    """Row 2. Seconds: of the first call, then p50, p99 and the longest of those after it."""
    record.step("nvmlInit and nvmlShutdown", lambda: _timed(_init, FEW))
    with opened() as nvml:
        gpus = nvml.devices()
        uuid = gpus[0].uuid
        find = pynvml.nvmlDeviceGetHandleByUUID
        record.step("handle by UUID", lambda: _timed(lambda: find(uuid), TIMES))
        record.step(f"handle by UUID in {THREADS} threads", lambda: _in_threads(lambda: find(uuid)))
        record.step("a new session's devices()", lambda: _timed(_devices, FEW))
        record.step("devices() again", lambda: _timed(nvml.devices, TIMES))
        record.step(
            "processes of every GPU",
            lambda: _timed(lambda: [gpu_processes(g.uuid, nvml.known_gpus) for g in gpus], TIMES),
        )
        record.step(
            "health of every GPU",
            lambda: _timed(lambda: [read_health(g, nvml.known_gpus) for g in gpus], TIMES),
        )
        watch = HealthWatch()
        record.step(
            "the watch's assessment",
            lambda: _timed(lambda: watch.assess(gpus, nvml.known_gpus), FEW),
        )
        with contextlib.closing(Sensors()) as sensors:
            record.step("sensors", lambda: _timed(sensors.sample, FEW))


def handles(record: Record) -> None:
    """Row 3. What this process has open after each thing that the agent does with NVML."""
    record.step("before nvmlInit", _open_files)
    with opened() as nvml:
        record.step("after nvmlInit", _open_files)
        gpus = nvml.devices()
        record.step("after handles", _open_files)
        events = EventSet()
        record.step("after an event set on every GPU", _open_files)
        events.close()
        record.step("after freeing the event set", _open_files)
        handle = pynvml.nvmlDeviceGetHandleByUUID(gpus[0].uuid)
        record.step("GPM", lambda: answer(activity, handle))
        record.step("after GPM samples", _open_files)
        with contextlib.closing(Sensors()) as sensors:
            sensors.sample()
            record.step("after the sensors", _open_files)
    record.step("after nvmlShutdown", _open_files)


def device_files(record: Record) -> None:
    """Row 4."""
    if record.simulated:
        raise NotPossible("a simulated node has no files in /dev and /proc")
    proc = Path("/proc/driver/nvidia")
    for path in (proc / "version", proc / "params", Path("/proc/driver/nvidia-caps/mig-minors")):
        record.step(str(path), lambda path=path: path.read_text("utf-8", "replace"))
    record.step(str(proc), lambda: _texts(proc))
    nodes = [*Path("/dev").glob("nvidia*"), *Path("/dev").glob("nvidia-caps/*")]
    record.step("/dev/nvidia*", lambda: [_node(path) for path in sorted(nodes)])
    record.step(
        "/dev/char",
        lambda: {
            str(link): str(link.readlink())
            for link in sorted(Path("/dev/char").iterdir())
            if "nvidia" in str(link.readlink())
        },
    )
    record.step("majors", lambda: Path("/proc/devices").read_text("utf-8"))
    record.step("kernel", lambda: " ".join(os.uname()))
    with opened() as nvml:
        record.step("by NVML", lambda: [_kernel_names(gpu.uuid) for gpu in nvml.devices()])


def visibility(record: Record) -> None:
    """Row 12."""
    for words in (("-i", "0", "-L"), ("-i", "99", "-L"), ("-i", NOBODY, "-L"), ("-L",)):
        record.program(" ".join((SMI, *words)), (SMI, *words))
    if record.simulated:
        raise NotPossible("a simulated node runs no CUDA program")
    with opened() as nvml:
        uuid = nvml.devices()[0].uuid
    for name, env in {
        "nothing set": {},
        "the UUID": {"CUDA_VISIBLE_DEVICES": uuid},
        "the UUID's beginning": {"CUDA_VISIBLE_DEVICES": uuid[:12]},
        "a UUID of nobody": {"CUDA_VISIBLE_DEVICES": NOBODY},
        "the UUID, then nobody": {"CUDA_VISIBLE_DEVICES": f"{uuid},{NOBODY}"},
        "nobody, then the UUID": {"CUDA_VISIBLE_DEVICES": f"{NOBODY},{uuid}"},
        "the UUID twice": {"CUDA_VISIBLE_DEVICES": f"{uuid},{uuid}"},
        "empty": {"CUDA_VISIBLE_DEVICES": ""},
        "void": {"CUDA_VISIBLE_DEVICES": uuid, "NVIDIA_VISIBLE_DEVICES": "void"},
        "by bus": {"CUDA_VISIBLE_DEVICES": uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        "first by speed": {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"},
    }.items():
        record.step(f"CUDA: {name}", lambda env=env: _cuda_devices(record, env))


@contextlib.contextmanager
def opened() -> Iterator[Nvml]:
    nvml = Nvml()
    try:
        yield nvml
    finally:
        nvml.close()


def _cuda_devices(record: Record, env: dict[str, str]) -> Any:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    words = record.words_of(own_program("cuda_client", "devices"), env=clean | env)
    return words | {"lines": lines_of(words["stdout"])}


def _fields(gpu: Any) -> dict[str, Any]:
    values = pynvml.nvmlDeviceGetFieldValues(gpu, [*FIELDS.values()])
    return {
        name: {"code": value.nvmlReturn, "value": value.value.uiVal}
        for name, value in zip(FIELDS, values, strict=True)
    }


def _profiles(gpu: Any, version: int) -> list[dict[str, Any]]:
    """Of each query index: the driver's code, and the numbers where it has some."""
    found = []
    for query in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        read = answer(lambda gpu, query=query: _profile(gpu, query, version), gpu)
        found.append({"query_index": query} | read)
    return found


def _profile(gpu: Any, query: int, version: int) -> dict[str, Any]:
    if version == 2:
        info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, query)
    else:
        info = ProfileInfoV3(version=ctypes.sizeof(ProfileInfoV3) | 3 << 24)
        ask = pynvml._nvmlGetFunctionPointer("nvmlDeviceGetGpuInstanceProfileInfoV")
        pynvml._nvmlCheckReturn(ask(gpu, query, ctypes.byref(info)))
    values = {name: getattr(info, name) for name, _ in info._fields_}
    return {n: v.decode() if isinstance(v, bytes) else v for n, v in values.items()}


def _timed(call: Callable[[], Any], times: int) -> dict[str, Any]:
    first, *later = (_seconds(call) for _ in range(times + 1))
    return {"first": first, **_spread(later)}


def _in_threads(call: Callable[[], Any]) -> dict[str, Any]:
    with ThreadPoolExecutor(THREADS) as pool:
        found = pool.map(lambda _: [_seconds(call) for _ in range(TIMES)], range(THREADS))
        return _spread([seconds for thread in found for seconds in thread])


def _seconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _spread(seconds: Iterable[float]) -> dict[str, Any]:
    ordered = sorted(seconds)
    return {
        "calls": len(ordered),
        "p50": round(ordered[len(ordered) // 2], 7),
        "p99": round(ordered[len(ordered) * 99 // 100], 7),
        "longest": round(ordered[-1], 7),
    }


def _init() -> None:
    pynvml.nvmlInit()
    pynvml.nvmlShutdown()


def _devices() -> None:
    with opened() as nvml:
        nvml.devices()


def _open_files() -> list[str]:
    """Those of a driver, a socket or the simulated node's state; not Python's own."""
    found = []
    for link in sorted(Path("/proc/self/fd").iterdir(), key=lambda path: int(path.name)):
        with contextlib.suppress(OSError):
            found.append(str(link.readlink()))
    return [name for name in found if not name.startswith((sys.prefix, "/proc/"))]


def _texts(folder: Path) -> dict[str, str]:
    """The content of every small file below it; the kernel's refusal where it gives one."""
    found = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        try:
            found[str(path.relative_to(folder))] = path.read_text("utf-8", "replace")[:4096]
        except OSError as error:
            found[str(path.relative_to(folder))] = str(error)
    return found


def _node(path: Path) -> dict[str, Any]:
    about = path.lstat()
    return {
        "path": str(path),
        "mode": stat.filemode(about.st_mode),
        "owner": f"{about.st_uid}:{about.st_gid}",
        "major": os.major(about.st_rdev),
        "minor": os.minor(about.st_rdev),
    }


def _kernel_names(uuid: str) -> dict[str, Any]:
    gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    return {
        "uuid": uuid,
        "minor": answer(pynvml.nvmlDeviceGetMinorNumber, gpu),
        "virtualization": answer(pynvml.nvmlDeviceGetVirtualizationMode, gpu),
        "bus": pynvml.nvmlDeviceGetPciInfo(gpu).busId,
    }
