"""Default CPU and memory are those of the device: its share of the smallest node that has it."""

import itertools

import pytest

from agents.contract.boards import known_boards
from agents.contract.layouts import layout_table
from scheduler.core.devices.options import device_options
from scheduler.core.model.snapshot import DeviceRequest, Isolation
from scheduler.core.placement import host_shares
from scheduler.core.placement.host_shares import HostNode, host_share
from scheduler.core.request.values import HostShare
from tests.support.host_nodes import BIG, GIB, H200, SMALL

T4 = known_boards()["T4-16GB"]
WITH_MIG = [board for board in known_boards().values() if board.profiles]


@pytest.mark.parametrize(
    ("device", "cores", "gib"),
    [
        (DeviceRequest(gpus=1), 24, 256),
        (DeviceRequest(gpus=8), 192, 2_048),
        (DeviceRequest(mig="7g.141gb"), 24, 256),
        (DeviceRequest(mig="1g.18gb"), 3, 32),
        (DeviceRequest(mig="3g.71gb"), 12, 128),
        (DeviceRequest(mig="4g.71gb"), 12, 128),
        (DeviceRequest(memory_mib=16 * GIB), 3, 32),
        (DeviceRequest(memory_mib=100 * GIB), 24, 256),
        (DeviceRequest(mps_threads=90, mps_memory_mib=-(-H200.memory_mib // 4)), 6, 64),
    ],
    ids=str,
)
def test_a_device_brings_its_share_of_the_node(device, cores, gib):
    assert host_share([BIG], device) == HostShare(cores * 1_000, gib * GIB)


def test_the_smallest_node_with_the_device_decides():
    nodes = [BIG, SMALL, HostNode(1_000, GIB, (T4,))]
    assert host_share(nodes, DeviceRequest(gpus=1, models=("H200",))) == HostShare(8_000, 64 * GIB)
    assert host_share(nodes, DeviceRequest(gpus=8)) == HostShare(192_000, 2_048 * GIB)
    assert host_share(nodes, DeviceRequest(gpus=1)) == HostShare(1_000, GIB)


def test_each_amount_is_the_least_of_its_kind():
    nodes = [HostNode(64_000, 128 * GIB, (H200,)), HostNode(16_000, 512 * GIB, (H200,))]
    assert host_share(nodes, DeviceRequest(gpus=1)) == HostShare(16_000, 128 * GIB)


def test_labels_and_taints_leave_nodes_out():
    tainted = HostNode(1_000, GIB, (H200,), taints=("lab=x",))
    labelled = HostNode(64_000, 64 * GIB, (H200,), labels=("zone=a",))
    one = DeviceRequest(gpus=1)
    assert host_share([BIG, tainted], one) == HostShare(24_000, 256 * GIB)
    assert host_share([BIG, tainted], one, tolerates=("lab",)) == HostShare(1_000, GIB)
    assert host_share([BIG, labelled], one, needs=("zone",)) == HostShare(64_000, 64 * GIB)


def test_without_such_a_node_the_amounts_are_fixed():
    unknown = HostNode(0, 0, (H200,))
    for nodes in ([], [unknown], [HostNode(8_000, GIB, (T4,))]):
        assert host_share(nodes, DeviceRequest(mig="1g.18gb")) == HostShare()


def test_less_than_a_core_and_a_gib_is_not_rounded_to_nothing():
    laptop = HostNode(2_000, 3_000, (H200,) * 4)
    assert host_share([laptop], DeviceRequest(mig="1g.18gb")) == HostShare(62, 93)
    assert host_share([HostNode(1, 1, (H200,))], DeviceRequest(mig="1g.18gb")) == HostShare(1, 4)


@pytest.mark.parametrize("board", WITH_MIG, ids=lambda board: board.key)
def test_whatever_slices_share_a_gpu_their_defaults_fit_on_the_node(board):
    node = HostNode(63_500, 511 * GIB + 17, (board,) * 3)
    shares = {p.name: host_share([node], DeviceRequest(mig=p.name)) for p in board.profiles}
    table = layout_table(board)
    assert table.is_complete and len(table) > 1
    for names in {tuple(sorted(place.profile for place in layout)) for layout in table}:
        cpu = sum(shares[name].cpu_milli for name in names)
        memory = sum(shares[name].memory_mib for name in names)
        assert 3 * cpu <= node.cpu_milli and 3 * memory <= node.memory_mib, names


def test_shares_that_fill_a_gpu_fit_on_the_node():
    node = HostNode(16_000, 64 * GIB, (H200,) * 2)
    for parts in itertools.product((0.1, 0.3, 0.6), repeat=3):
        if sum(parts) > 1:
            continue
        sizes = [int(part * H200.memory_mib) for part in parts]
        shares = [
            host_share([node], DeviceRequest(mps_threads=50, mps_memory_mib=size)) for size in sizes
        ]
        assert 2 * sum(share.cpu_milli for share in shares) <= node.cpu_milli
        assert 2 * sum(share.memory_mib for share in shares) <= node.memory_mib


def test_an_amount_of_memory_counts_as_the_smallest_device_that_may_serve_it():
    either = DeviceRequest(memory_mib=16 * GIB, isolation=Isolation.ANY)
    share = HostShare(*(amount * 16 * GIB // H200.memory_mib // 8 for amount in (192_000, 2**21)))
    assert host_share([BIG], either).cpu_milli == share.cpu_milli // 1_000 * 1_000
    assert host_share([BIG], either).memory_mib == share.memory_mib // GIB * GIB


def test_nodes_with_the_same_boards_are_worked_out_once(monkeypatch):
    """Each card of the request page asks, on every key pressed, about a thousand nodes."""
    calls = []
    monkeypatch.setattr(
        host_shares, "device_options", lambda *of: calls.append(of) or device_options(*of)
    )
    nodes = [HostNode(192_000 - n, 2_048 * GIB, (H200,) * 8) for n in range(1_000)] + [SMALL]
    assert host_share(nodes, DeviceRequest(gpus=8)) == HostShare(191_000, 2_048 * GIB)
    assert len(calls) == 2
