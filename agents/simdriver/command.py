"""`agents simulate create|show|inject`: a simulated node: created, shown, with faults.

Prints the state as JSON. Errors are one sentence and exit status 2."""

import argparse
import errno
import json
import secrets
import sys
from typing import NoReturn

from agents.simdriver import faults
from agents.simdriver.arguments import DEFAULT_BOARD
from agents.simdriver.health import inject_lost, inject_xid
from agents.simdriver.layouts import LAYOUTS
from agents.simdriver.library import symbols
from agents.simdriver.state import SimulatedGpu, SimulatedNode, new_node, node_to_json
from agents.simdriver.store import Store

DEFAULT_GPUS = 4


def main(options: argparse.Namespace) -> int:
    """Exit status 0. Raises SystemExit for an invalid file or request."""
    store = Store(options.path)
    try:
        if options.simulate == "create":
            _create(store, options)
        node = store.node()
    except OSError as error:
        _refuse(f"{options.path}: {error.strerror}. Create a node first with `create`.")
    except (ValueError, KeyError, TypeError, AttributeError):
        _refuse(f"{options.path} is not the state of a simulated node")
    if options.simulate == "inject":
        node = _inject(store, options)
    sys.stdout.write(json.dumps(node_to_json(node), indent=1) + "\n")
    return 0


def _refuse(sentence: str) -> NoReturn:
    sys.stderr.write(f"{sentence}\n")
    raise SystemExit(2)


def _create(store: Store, options: argparse.Namespace) -> None:
    """Never over a node that an agent may be using. Raises FileExistsError.

    A layout determines its board and number of GPUs; other options must agree with it."""
    layout = LAYOUTS[options.layout]
    board = options.board or layout.board or DEFAULT_BOARD
    gpus = options.gpus or layout.gpus or DEFAULT_GPUS
    if layout.board not in (None, board) or layout.gpus not in (None, gpus):
        _refuse(f"{layout.name} is {layout.gpus} x {layout.board}, not {gpus} x {board}")
    if store.path.exists():
        raise FileExistsError(errno.EEXIST, "the file exists; delete it to start again")
    seed = options.seed if options.seed is not None else secrets.randbits(48)
    latency = options.latency == "on"
    node = new_node(board=board, gpus=gpus, seed=seed, latency=latency, layout=layout)
    node.fabric_cluster = options.fabric_cluster or ""
    node.fabric_clique = options.fabric_clique
    node.repeats_mig_uuids = options.mig_uuids == "repeat"
    store.create(node)


def _inject(store: Store, options: argparse.Namespace) -> SimulatedNode:
    """Inject the fault and return the node. An impossible fault changes nothing."""
    try:
        with store.change() as node:
            if "gpu" not in options:
                _to_node(node, options)
            elif not 0 <= options.gpu < len(node.gpus):
                raise ValueError(f"there is no GPU {options.gpu}: the node has {len(node.gpus)}")
            else:
                _to_gpu(node, node.gpus[options.gpu], options)
    except ValueError as refused:
        _refuse(str(refused))
    return store.node()


def _to_gpu(node: SimulatedNode, gpu: SimulatedGpu, options: argparse.Namespace) -> None:
    match options.fault:
        case "xid":
            inject_xid(node, gpu, options.number, options.instance, options.compute)
        case "lost":
            inject_lost(gpu)
        case "clear":
            faults.clear_faults(node, gpu)
        case "reset":
            faults.reset_gpu(node, gpu)
        case "reset-refused":
            gpu.reset_refused = not options.off
        case "hold":
            listed = not options.unlisted
            faults.attach_client(gpu, options.pid, options.instance, options.compute, listed=listed)
        case "release":
            faults.detach_client(gpu, options.pid)
        case "ecc":
            faults.inject_ecc(node, gpu, options.count, corrected=options.corrected)
        case "remap":
            faults.inject_remap(gpu, failed=options.failed)


def _to_node(node: SimulatedNode, options: argparse.Namespace) -> None:
    match options.fault:
        case "reboot":
            faults.reboot_node(node)
        case "slow":
            faults.set_call_seconds(node, options.call, options.seconds, frozenset(symbols()))
        case "fail-next":
            known = frozenset(symbols())
            faults.fail_next(node, options.code, options.call, options.times, known)
        case "non-root" | "root":
            node.is_root = options.fault == "root"
