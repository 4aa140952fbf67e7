"""Rows 5 and 6: the driver's events, and processes as NVML lists them."""

import contextlib
import os
import time
from pathlib import Path
from typing import Any

import pynvml

from agents.health.xids import xid_by_number
from agents.nvml.health import EventSet
from agents.nvml.session import Nvml
from tests.gpu.questions import answer
from tests.gpu.use.clients import running
from tests.gpu.use.record import NotPossible, Record
from tests.gpu.use.rows_driver import opened

QUIET_MILLISECONDS = 500
EVENT_SECONDS = 20.0
GONE_SECONDS = 15.0
START_SECONDS = 30.0
LISTS = {
    "compute": pynvml.nvmlDeviceGetComputeRunningProcesses_v3,
    "graphics": pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3,
    "mps": pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3,
}


def events(record: Record) -> None:
    """Row 5. The fault is that of a program of our own, and only on request (FAULT=1)."""
    with opened() as nvml:
        record.step("supported types", lambda: [_types(gpu.uuid) for gpu in nvml.devices()])
        with contextlib.closing(EventSet()) as found:
            record.step("registered", lambda: sorted(found.gpus))
            record.step("a quiet wait", lambda: _wait(QUIET_MILLISECONDS, found))
            record.step("an illegal address", lambda: _fault(record, nvml, found))
        record.step("processes after it", lambda: _all_processes(nvml))


def processes(record: Record) -> None:
    """Row 6."""
    with opened() as nvml:
        record.step("own pid and namespace", _namespace)
        record.step("before", lambda: _all_processes(nvml))
        with running(record, "cuda_client", "hold", "60") as client:
            record.step("the program's words", lambda: client.next(START_SECONDS))
            record.step("while it runs", lambda: _all_processes(nvml))
            record.step("its name", lambda: answer(_name, client.process.pid))
        record.step("seconds until it is gone", lambda: _gone(nvml, client.process.pid))
        record.step("after", lambda: _all_processes(nvml))


def _types(uuid: str) -> dict[str, Any]:
    gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    return {"uuid": uuid, "types": answer(pynvml.nvmlDeviceGetSupportedEventTypes, gpu)}


def _wait(milliseconds: int, events: EventSet) -> dict[str, Any]:
    began = time.monotonic()
    event = events.wait(milliseconds)
    return {"event": str(event), "seconds": round(time.monotonic() - began, 3)}


def _fault(record: Record, nvml: Nvml, events: EventSet) -> dict[str, Any]:
    if os.environ.get("FAULT") != "1":
        raise NotPossible("not requested: FAULT=1 lets a program of our own fault")
    before = _all_processes(nvml)
    with running(record, "cuda_client", "illegal") as client:
        began = time.monotonic()
        found = []
        while time.monotonic() - began < EVENT_SECONDS:
            event = events.wait(QUIET_MILLISECONDS)
            if event is not None:
                delay = round(time.monotonic() - began, 3)
                meaning = xid_by_number(event.xid).sentence if event.xid else ""
                found.append({"event": str(event), "seconds": delay, "we_say": meaning})
            elif client.process.poll() is not None and found:
                break
        words = client.until_end(EVENT_SECONDS)
    return {"before": before, "events": found, "program": words, "after": _all_processes(nvml)}


def _namespace() -> dict[str, Any]:
    return {"pid": os.getpid(), "namespace": str(Path("/proc/self/ns/pid").readlink())}


def _all_processes(nvml: Nvml) -> list[dict[str, Any]]:
    return [{"gpu": gpu.uuid, **_processes(gpu.uuid)} for gpu in nvml.devices()]


def _processes(uuid: str) -> dict[str, Any]:
    gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    return {name: answer(lambda gpu, ask=ask: list(map(_process, ask(gpu))), gpu)
            for name, ask in LISTS.items()}  # fmt: skip


def _pids(nvml: Nvml) -> set[int]:
    lists = [listed for gpu in nvml.devices() for listed in _processes(gpu.uuid).values()]
    return {process["pid"] for listed in lists for process in listed.get("value", ())}


def _process(process: Any) -> dict[str, Any]:
    return {
        "pid": process.pid,
        "used_bytes": process.usedGpuMemory,
        "gpu_instance": process.gpuInstanceId,
        "compute_instance": process.computeInstanceId,
        "name": answer(_name, process.pid),
    }


def _name(pid: int) -> str:
    name = pynvml.nvmlSystemGetProcessName(pid)
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else name


def _gone(nvml: Nvml, pid: int) -> float | str:
    began = time.monotonic()
    while time.monotonic() - began < GONE_SECONDS:
        if pid not in _pids(nvml):
            return round(time.monotonic() - began, 4)
        time.sleep(0.02)
    return f"still listed after {GONE_SECONDS:g} s"
