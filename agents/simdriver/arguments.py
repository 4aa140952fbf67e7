"""Arguments of `agents simulate` and of its alias `python -m agents.simdriver`."""

import argparse
import math
import os
from pathlib import Path
from typing import TypeAlias
from uuid import UUID

from agents.contract.boards import known_boards
from agents.simdriver.codes import Code
from agents.simdriver.faults import KINDS
from agents.simdriver.layouts import FLAT, LAYOUTS

SETTING = "TESSERA_SIMULATED_DRIVER"
DEFAULT_BOARD = "H200-141GB"
Faults: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Give `parser` the commands create, show and inject."""
    commands = parser.add_subparsers(dest="simulate", required=True, metavar="create|show|inject")
    create = commands.add_parser("create", help="create a node whose GPUs are all of one board")
    show = commands.add_parser("show", help="print the node's state as JSON")
    inject = commands.add_parser("inject", help="inject a fault into a GPU or the driver")
    _create(create)
    faults = inject.add_subparsers(dest="fault", required=True, metavar="FAULT")
    for command in (create, show, *_of_gpus(faults), *_of_nodes(faults)):
        path = os.environ.get(SETTING) or None
        command.add_argument(
            "--path", type=Path, default=path, required=path is None, help=f"else {SETTING}"
        )


def _create(create: argparse.ArgumentParser) -> None:
    create.add_argument("--board", choices=sorted(known_boards()), help=f"else {DEFAULT_BOARD}")
    create.add_argument("--gpus", type=int, choices=range(1, 17), metavar="1..16")
    wirings = "; ".join(f"{layout.name}: {layout.description}" for layout in LAYOUTS.values())
    create.add_argument("--layout", choices=list(LAYOUTS), default=FLAT.name, help=wirings)
    create.add_argument("--seed", type=int, help="the same seed gives the same UUIDs")
    create.add_argument(
        "--fabric-cluster", type=_uuid, help="UUID of an NVLink fabric that spans several nodes"
    )
    create.add_argument(
        "--fabric-clique", type=_count, default=0, help="the clique within that fabric"
    )
    create.add_argument("--latency", choices=["on", "off"], default="on")
    create.add_argument(
        "--mig-uuids",
        choices=["new", "repeat"],
        default="new",
        help="of a MIG device that is made again: another UUID, or the same as before",
    )


def _of_gpus(faults: Faults) -> tuple[argparse.ArgumentParser, ...]:
    xid = faults.add_parser("xid", help="an XID event with the effects of such an error")
    xid.add_argument("number", type=int, choices=range(1, 1000), metavar="1..999")
    xid.add_argument("--instance", type=int, help="GPU instance id, else the whole GPU")
    xid.add_argument("--compute", type=int, help="compute instance id within it")
    lost = faults.add_parser("lost", help="the GPU falls off the bus without an event")
    clear = faults.add_parser("clear", help="clear health faults; MIG instances and clients stay")
    reset = faults.add_parser(
        "reset", help="as nvidia-smi --gpu-reset: removes MIG instances, applies a pending mode"
    )
    refused = faults.add_parser(
        "reset-refused", help="resets fail, as in many VMs: a mode that needs one stays pending"
    )
    refused.add_argument("--off", action="store_true", help="resets work again")
    hold = faults.add_parser("hold", help="a client has the device open, so changes return IN_USE")
    hold.add_argument("--pid", type=_positive, required=True, help="the client's process id")
    hold.add_argument("--instance", type=int, help="GPU instance id, else the whole GPU")
    hold.add_argument("--compute", type=int, help="compute instance id, else the lowest")
    hold.add_argument(
        "--unlisted",
        action="store_true",
        help="not listed among the processes, as with a leaked handle",
    )
    release = faults.add_parser("release", help="end the client of `hold`")
    release.add_argument("--pid", type=_positive, required=True, help="the client's process id")
    ecc = faults.add_parser("ecc", help="uncorrected ECC errors: counters and one event")
    ecc.add_argument("--count", type=_positive, default=1, help="number of errors (default 1)")
    ecc.add_argument("--corrected", action="store_true", help="corrected single-bit errors")
    remap = faults.add_parser("remap", help="a memory row is waiting to be remapped at a reset")
    remap.add_argument("--failed", action="store_true", help="no spare row: the remapping failed")
    found = (xid, lost, clear, reset, refused, hold, release, ecc, remap)
    for fault in found:
        fault.add_argument("--gpu", type=int, required=True, help="index of the GPU")
    return found


def _of_nodes(faults: Faults) -> tuple[argparse.ArgumentParser, ...]:
    reboot = faults.add_parser(
        "reboot",
        help="end processes, remove MIG instances; Ampere keeps its MIG mode, newer GPUs do not",
    )
    slow = faults.add_parser("slow", help="delay calls of the driver")
    slow.add_argument("call", help=f"a symbol of nvml.h, or a kind: {', '.join(KINDS)}")
    slow.add_argument("seconds", type=_seconds, help="0 ends it")
    failing = faults.add_parser("fail-next", help="the next calls return an error and do nothing")
    failing.add_argument("code", type=_code, help="such as IN_USE, or its number in nvml.h")
    failing.add_argument("call", help="a symbol of nvml.h, such as nvmlGpuInstanceDestroy")
    failing.add_argument(
        "--times", type=_count, default=1, help="number of calls (default 1); 0 cancels it"
    )
    plain = faults.add_parser("non-root", help="calls that need root return NO_PERMISSION")
    root = faults.add_parser("root", help="the agent is root again")
    return (reboot, slow, failing, plain, root)


def _uuid(text: str) -> str:
    return str(UUID(text))


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value} is less than 0")
    return value


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and 0 <= value <= 3_600):
        raise argparse.ArgumentTypeError(f"{text} is not within 0 to 3600 seconds")
    return value


def _code(text: str) -> Code:
    """By name, with or without NVML_ERROR_, or by number."""
    name = text.upper().removeprefix("NVML_ERROR_")
    if name in Code.__members__:
        return Code[name]
    if text.isdigit() and int(text) in set(Code):
        return Code(int(text))
    raise argparse.ArgumentTypeError(f"{text} is none of {', '.join(Code.__members__)}")
