"""Profiles a PyTorch program from inside: the file that Python finds as `sitecustomize`.

It waits until the program imports PyTorch's optimizers, counts the steps of the first optimizer
that steps, leaves out the first ones, and has `torch.profiler` record a few. Then it writes, below
TESSERA_OUTPUT_DIR, the trace and a summary, and is gone. Rank 0 only, once a replica.

It never imports PyTorch by itself, and whatever goes wrong in it is one line on stderr: the program
goes on. A `sitecustomize` of the image or the user still runs. Standard library only, for any
Python from 3.8. Sources: Python's `site`; `torch.optim.Optimizer`, hooks of steps (PyTorch 2.0);
`torch.profiler`; the trace is Chrome's Trace Event Format as Kineto writes it.
"""

from __future__ import annotations

import atexit
import contextlib
import gzip
import importlib.machinery
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

FOLDER, SUMMARY_FILE, TRACE_FILE = "tessera-profile", "summary.json", "trace.json.gz"
VERSION = 1
OPTIMIZERS = "torch.optim.optimizer"
# The first steps compile, allocate and fill caches.
SKIPPED_STEPS, RECORDED_STEPS = 5, 10
# Of steps that take long; asked at the end of each.
RECORDED_SECONDS = 60.0
# A longer trace is kept, but not read: that would take too much of the job's memory.
MAX_READ_BYTES = 64 << 20
MAX_OPERATORS, MAX_NAME = 15, 160
# Ranks by the variable of their launcher; the last one is that of the replica.
RANK_NAMES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "NODE_RANK")
COMPUTE, COMMUNICATION, COPY = "compute", "communication", "copy"
DEVICE_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
COMMUNICATION_PREFIXES = ("nccl", "gloo:", "mpi:", "ucc:", "c10d", "_c10d", "record_param_comms")
CPU_COPIES = ("aten::copy_", "aten::_to_copy", "aten::to", "aten::pin_memory", "aten::_pin_memory")
LOADING = "enumerate(DataLoader)"

INFINITY = float("inf")
if TYPE_CHECKING:  # Python 3.8 could not make them.
    # Start and end in microseconds.
    Span = tuple[float, float]
    # Start, end, name, category, and whether a call begins with it.
    Piece = tuple[float, float, str, str, bool]


class OptimizerFinder:
    """Finds one module, for `sys.meta_path`, and attaches the step counter once that has run."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != OPTIMIZERS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return None
        sys.meta_path.remove(self)
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            StepCounter().attach(module)

        loader.exec_module = exec_module
        return spec


class StepCounter:
    """Counts the steps of one optimizer, and opens and closes the window in which is recorded."""

    def __init__(self) -> None:
        self.steps = 0
        self.optimizer: Any = None
        self.window: Window | None = None
        self.handle: Any = None
        self.torch: Any = None

    def attach(self, module: Any) -> None:
        try:
            register = module.register_optimizer_step_post_hook
            self.torch, self.handle = sys.modules["torch"], register(self.stepped)
            atexit.register(self.finish)
        except AttributeError:
            say("this PyTorch tells nobody of its steps: 2.0 or newer does. Not profiled")
        except Exception as error:
            self.give_up(error)

    def stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Called by PyTorch after each step of any optimizer. One that is being compiled, or
        captured in a CUDA graph, is left alone: nothing here may become a part of it."""
        if is_traced(self.torch):
            return
        try:
            self._count(optimizer)
        except Exception as error:
            self.give_up(error)

    def finish(self) -> None:
        """The program ends, perhaps within the window."""
        try:
            if self.window:
                self._close(self.window)
            elif self.handle and self.steps and own_rank() == 0:
                say(
                    f"not profiled: it ended after {self.steps} steps, {SKIPPED_STEPS} are left out"
                )
        except Exception as error:
            self.give_up(error)

    def give_up(self, error: Exception) -> None:
        if self.window:
            with contextlib.suppress(Exception):
                self.window.profiler.stop()
        self._detach()
        say(f"not profiled: {type(error).__name__}: {error}")

    def _count(self, optimizer: Any) -> None:
        if self.handle is None or (self.optimizer is not None and optimizer is not self.optimizer):
            return
        self.optimizer = optimizer
        self.steps += 1
        if self.window:
            self.window.steps += 1
            if self.window.is_over():
                self._close(self.window)
        elif self.steps >= SKIPPED_STEPS:
            folder = claimed_folder() if own_rank() == 0 else None
            if folder:
                self.window = Window(folder)
            else:
                self._detach()

    def _close(self, window: Window) -> None:
        self.window = None
        self._detach()
        window.close()

    def _detach(self) -> None:
        handle, self.handle, self.window, self.optimizer = self.handle, None, None, None
        if handle is not None:
            handle.remove()


class Window:
    """Some steps that `torch.profiler` records, from now on."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.steps = folder, 0
        self.torch: Any = sys.modules["torch"]
        profiler: Any = importlib.import_module("torch.profiler")
        activity = profiler.ProfilerActivity
        # To ask whether there is one would begin to use it, in a program that stays on the CPU.
        self.on_gpu = bool(self.torch.cuda.is_initialized())
        self._wait_for_gpu()
        self.profiler: Any = profiler.profile(
            activities=[activity.CPU, *([activity.CUDA] if self.on_gpu else [])]
        )
        self.profiler.start()
        self.started = time.perf_counter()

    def is_over(self) -> bool:
        took = time.perf_counter() - self.started
        return self.steps >= RECORDED_STEPS or took > RECORDED_SECONDS

    def close(self) -> None:
        """Stop, and write what was recorded."""
        self._wait_for_gpu()
        seconds = time.perf_counter() - self.started
        self.profiler.stop()
        handle, name = tempfile.mkstemp(suffix=".json")
        os.close(handle)
        trace = Path(name)
        try:
            self.profiler.export_chrome_trace(name)
            with trace.open("rb") as plain, gzip.open(self.folder / TRACE_FILE, "wb", 5) as packed:
                shutil.copyfileobj(plain, packed)
            if trace.stat().st_size > MAX_READ_BYTES:
                say(f"the trace is too long for a summary: open {FOLDER}/{TRACE_FILE}")
                return
            events = json.loads(trace.read_bytes())["traceEvents"]
        finally:
            trace.unlink()
        summary = {**summary_of(events, seconds * 1e6), **self._facts()}
        part = self.folder / f"{SUMMARY_FILE}.part"
        part.write_text(json.dumps(summary), "utf-8")
        part.replace(self.folder / SUMMARY_FILE)
        say(f"profiled {self.steps} steps in {seconds:.2f} s: {FOLDER}/ in the output of the job")

    def _facts(self) -> dict[str, Any]:
        cuda = self.torch.cuda
        return {
            "version": VERSION,
            "steps": self.steps,
            "rank": own_rank(),
            "world": world_size(),
            "torch": str(self.torch.__version__)[:64],
            "device": str(cuda.get_device_name())[:128] if self.on_gpu else "",
        }

    def _wait_for_gpu(self) -> None:
        if self.on_gpu:
            self.torch.cuda.synchronize()


def summary_of(events: Iterable[dict[str, Any]], window_us: float) -> dict[str, Any]:
    """How a window's time is divided, by the events of its trace.

    On a GPU by its kernels, of the busiest one if there are several; without one by the innermost
    operators of all threads. Each moment counts once: as compute if anything computes, else as
    communication, else as copy, else as idle. So communication is what the computing does not hide;
    `communication_total_us` is all of it. Times are in microseconds, and the four parts make up
    `window_us`. `loading_us`: how long the program waited for its data loader."""
    whole = [event for event in events if event.get("ph") == "X" and "ts" in event]
    on_device = [event for event in whole if event.get("cat") in DEVICE_CATEGORIES]
    pieces = of_device(on_device) if on_device else of_cpu(whole)
    spans: dict[str, list[Span]] = {COMPUTE: [], COMMUNICATION: [], COPY: []}
    for start, end, _, category, _ in pieces:
        spans[category].append((start, end))
    computing = length(spans[COMPUTE])
    joined = length(spans[COMPUTE] + spans[COMMUNICATION])
    busy = length(spans[COMPUTE] + spans[COMMUNICATION] + spans[COPY])
    loading = [span_of(event) for event in whole if str(event.get("name")).startswith(LOADING)]
    window_us = max(window_us, busy)
    return {
        "by_device": bool(on_device),
        "window_us": round(window_us),
        "compute_us": round(computing),
        "communication_us": round(joined - computing),
        "copy_us": round(busy - joined),
        "idle_us": round(window_us - busy),
        "communication_total_us": round(length(spans[COMMUNICATION])),
        "loading_us": round(min(length(loading), window_us)),
        "operators": operators_of(pieces),
    }


def of_device(events: Sequence[dict[str, Any]]) -> list[Piece]:
    """Kernels and copies of the GPU that had most to do."""
    by_gpu: dict[Any, list[Piece]] = {}
    for event in events:
        name, (start, end) = str(event.get("name", "")), span_of(event)
        category = device_category(name, event["cat"])
        gpu = (event.get("args") or {}).get("device", event.get("pid"))
        by_gpu.setdefault(gpu, []).append((start, end, name, category, True))
    return max(by_gpu.values(), key=lambda found: length([piece[:2] for piece in found]))


def of_cpu(events: Sequence[dict[str, Any]]) -> list[Piece]:
    """For each thread, the operator that is the innermost one, from when to when."""
    threads: dict[Any, list[tuple[float, float, str]]] = {}
    for event in events:
        name = str(event.get("name", ""))
        is_operator = event.get("cat") == "cpu_op" or name.startswith(COMMUNICATION_PREFIXES)
        if is_operator and not name.startswith(LOADING):
            thread = (event.get("pid"), event.get("tid"))
            threads.setdefault(thread, []).append((*span_of(event), name))
    return [piece for found in threads.values() for piece in innermost(found)]


def innermost(operators: list[tuple[float, float, str]]) -> Iterable[Piece]:
    """`operators`: of one thread, nested in each other."""
    open_ones: list[tuple[float, str]] = []
    counted: set[int] = set()
    at = 0.0
    numbers: list[int] = []

    def piece(until: float) -> Iterable[Piece]:
        if at < until:
            name, number = open_ones[-1][1], numbers[-1]
            yield at, until, name, cpu_category(name), number not in counted
            counted.add(number)

    ordered = sorted(operators, key=lambda each: (each[0], -each[1]))
    for number, (start, end, name) in enumerate([*ordered, (INFINITY, INFINITY, "")]):
        while open_ones and open_ones[-1][0] <= start:
            yield from piece(open_ones[-1][0])
            at = max(at, open_ones.pop()[0])
            numbers.pop()
        if open_ones:
            yield from piece(start)
        at = max(at, start)
        open_ones.append((end, name))
        numbers.append(number)


def device_category(name: str, kind: str) -> str:
    if kind != "kernel":
        return COPY
    lower = name.lower()
    return COMMUNICATION if "nccl" in lower or "nvshmem" in lower else COMPUTE


def cpu_category(name: str) -> str:
    if name.startswith(COMMUNICATION_PREFIXES):
        return COMMUNICATION
    return COPY if name in CPU_COPIES else COMPUTE


def operators_of(pieces: Iterable[Piece]) -> list[dict[str, Any]]:
    """Those that took most time, by name."""
    found: dict[tuple[str, str], list[float]] = {}
    for start, end, name, category, is_call in pieces:
        entry = found.setdefault((name, category), [0, 0.0])
        entry[0] += is_call
        entry[1] += end - start
    longest = sorted(found.items(), key=lambda item: (-item[1][1], item[0]))[:MAX_OPERATORS]
    return [
        {"name": name[:MAX_NAME], "category": category, "calls": int(calls), "us": round(us)}
        for (name, category), (calls, us) in longest
    ]


def length(spans: Iterable[Span]) -> float:
    """Of their union, in microseconds."""
    total, until = 0.0, -INFINITY
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def span_of(event: dict[str, Any]) -> Span:
    start = float(event["ts"])
    return start, start + max(0.0, float(event.get("dur") or 0))


def is_traced(torch: Any) -> bool:
    compiler: Any = getattr(torch, "compiler", None)
    if hasattr(compiler, "is_compiling") and compiler.is_compiling():
        return True
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


def own_rank() -> int:
    """Of this process in its gang: as PyTorch says, or else its launcher."""
    torch: Any = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    texts = (os.environ.get(name, "") for name in RANK_NAMES)
    return next((int(text) for text in texts if text.isdigit()), 0)


def world_size() -> int:
    torch: Any = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_world_size())
    return 1


def claimed_folder() -> Path | None:
    """The folder of the result; None if an earlier process of the replica has it."""
    folder = Path(os.environ["TESSERA_OUTPUT_DIR"]) / FOLDER
    try:
        folder.mkdir()
    except FileExistsError:
        return None
    return folder


def say(sentence: str) -> None:
    with contextlib.suppress(Exception):
        sys.stderr.write(f"tessera profiler: {sentence}\n")


def add_paths_of_image() -> None:
    """Behind those of PYTHONPATH, which in a container is the agent's and the user's."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    texts = os.environ.get("TESSERA_IMAGE_PYTHONPATH", "").split(os.pathsep)
    new = [text for text in texts if text and text not in sys.path]
    at = max((sys.path.index(text) + 1 for text in given if text in sys.path), default=0)
    sys.path[at:at] = new


def run_other_sitecustomize() -> None:
    """The one that Python would have run without this file."""
    own = Path(__file__).resolve().parent
    others = [path for path in sys.path if Path(path or ".").resolve() != own]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    sys.meta_path.insert(0, OptimizerFinder())
    add_paths_of_image()
    run_other_sitecustomize()
