"""Rows 7 and 8: the sensors while a GPU works, and profilers of users while the sensors read."""

import contextlib
import dataclasses
import shutil
import time
from typing import Any

import pynvml

from agents.nvml.health import read_health
from agents.nvml.session import Nvml
from agents.nvml.telemetry import Sensors
from tests.gpu.use.clients import Client, running
from tests.gpu.use.pytorch import require_torch
from tests.gpu.use.record import NotPossible, Record, own_program
from tests.gpu.use.rows import LOAD_SECONDS
from tests.gpu.use.rows_driver import opened

IDLE_SECONDS = 10
PROFILE_SECONDS = 6
START_SECONDS = 60.0
# One launch of one kernel: enough to know whether the counters can be had.
NCU = ("--clock-control", "none", "--launch-count", "1", "--section", "SpeedOfLight")


def load(record: Record) -> None:
    """Row 7. Idle, at full load, idle again; every second what the agent reads."""
    with opened() as nvml, contextlib.closing(Sensors()) as sensors:
        # A simulated node never works, so that two looks tell as much as ten.
        idle = 2 if record.simulated else IDLE_SECONDS
        record.step("idle before", lambda: _samples(nvml, sensors, idle, None))
        record.step("at full load", lambda: _loaded(record, nvml, sensors))
        record.step("idle after", lambda: _samples(nvml, sensors, idle, None))


def profiler(record: Record) -> None:
    """Row 8. Each profiler alone, then while the sensors read every second."""
    require_torch(record)
    with contextlib.closing(Sensors()) as sensors, opened() as nvml:
        for name, ours in (("without our sensors", False), ("while our sensors read", True)):
            record.step(
                f"torch.profiler {name}",
                lambda ours=ours: _profiled(record, nvml, sensors if ours else None),
            )
            record.step(f"ncu {name}", lambda ours=ours: _ncu(record, sensors if ours else None))


def _loaded(record: Record, nvml: Nvml, sensors: Sensors) -> dict[str, Any]:
    require_torch(record)
    with running(record, "torch_work", "matmul", str(LOAD_SECONDS)) as client:
        client.next(START_SECONDS)
        seconds = _samples(nvml, sensors, LOAD_SECONDS, client)
        return {"every_second": seconds, "program": client.until_end(START_SECONDS)}


def _profiled(record: Record, nvml: Nvml, sensors: Sensors | None) -> dict[str, Any]:
    with running(record, "torch_work", "profiled", str(PROFILE_SECONDS)) as client:
        client.next(START_SECONDS)
        seconds = _samples(nvml, sensors, PROFILE_SECONDS, client) if sensors else []
        return {"every_second": seconds, "program": client.until_end(START_SECONDS)}


def _ncu(record: Record, sensors: Sensors | None) -> dict[str, Any]:
    program = shutil.which("ncu")
    if program is None:
        raise NotPossible("this machine has no ncu")
    command = [program, *NCU, *own_program("torch_work", "matmul", "1")]
    with running(record, "", command=command) as client:
        seconds = []
        while sensors and client.process.poll() is None and len(seconds) < START_SECONDS:
            seconds.append([dataclasses.asdict(sample) for sample in sensors.sample()])
            time.sleep(1)
        words = client.until_end(START_SECONDS)
    return {"command": command, "every_second": seconds, **words}


def _samples(
    nvml: Nvml, sensors: Sensors, seconds: int, client: Client | None
) -> list[dict[str, Any]]:
    """Once a second: what the sensors read, what health reads, the reasons of the clocks."""
    found = []
    began = time.monotonic()
    for number in range(1, seconds + 1):
        gpus = nvml.devices()
        found.append({
            "second": round(time.monotonic() - began, 3),
            "samples": [dataclasses.asdict(sample) for sample in sensors.sample()],
            "health": [str(read_health(gpu, nvml.known_gpus)) for gpu in gpus],
            "reasons": [_reasons(nvml, gpu.uuid) for gpu in gpus],
        })  # fmt: skip
        if client is not None and client.process.poll() is not None:
            break
        time.sleep(max(0.0, began + number - time.monotonic()))
    return found


def _reasons(nvml: Nvml, uuid: str) -> str:
    return hex(pynvml.nvmlDeviceGetCurrentClocksEventReasons(nvml.known_gpus.handle(uuid)))
