"""NICs by a tree of sysfs that a test writes: what is read, what is left out, and rails."""

import os
from pathlib import Path

import pytest

from agents.topology.nics import Network, Nic
from agents.topology.pci import PciPlace
from agents.topology.sysfs import read_network, sysfs_root

CARD = "devices/pci0000:10/0000:10:01.0/0000:1c:00.0"


def a_card(root: Path, path: str, *, numa: int = 0) -> Path:
    card = root / path
    card.mkdir(parents=True)
    (card / "numa_node").write_text(f"{numa}\n")
    return card


def link(root: Path, kind: str, name: str, device: Path) -> Path:
    """A class device below `device`, linked to and fro as the kernel does."""
    found = device / kind / name
    found.mkdir(parents=True)
    (found / "device").symlink_to(os.path.relpath(device, found))
    folder = root / "class" / kind
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).symlink_to(os.path.relpath(found, folder))
    return found


def interface(root: Path, device: Path, name: str, *, state: str = "up", speed: str = "25000"):
    found = link(root, "net", name, device)
    (found / "operstate").write_text(f"{state}\n")
    (found / "speed").write_text(f"{speed}\n")
    (found / "type").write_text("1\n")


def rdma(root: Path, device: Path, name: str, *ports: tuple[str, str, str]):
    found = link(root, "infiniband", name, device)
    for number, (state, rate, layer) in enumerate(ports, 1):
        port = found / "ports" / str(number)
        port.mkdir(parents=True)
        (port / "state").write_text(f"{state}\n")
        (port / "rate").write_text(f"{rate}\n")
        (port / "link_layer").write_text(f"{layer}\n")


ACTIVE = ("4: ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand")
DOWN = ("1: DOWN", "2.5 Gb/sec (1X SDR)", "Ethernet")


def test_an_rdma_device_is_told_with_its_port_its_interface_and_its_place(tmp_path):
    card = a_card(tmp_path, CARD, numa=1)
    rdma(tmp_path, card, "mlx5_0", ACTIVE)
    interface(tmp_path, card, "ib0")
    (nic,) = read_network(tmp_path, {}).nics
    assert (nic.index, nic.name, nic.interfaces, nic.rdma) == (0, "mlx5_0", ("ib0",), True)
    assert (nic.link_layer, nic.mbit_per_second, nic.up) == ("InfiniBand", 400_000, True)
    assert nic.mb_per_second == 50_000
    assert (nic.place.root, nic.place.bus_id, nic.place.numa_node) == (
        "pci0000:10",
        "0000:1c:00.0",
        1,
    )


def test_of_two_ports_the_active_one_counts(tmp_path):
    rdma(tmp_path, a_card(tmp_path, CARD), "mlx4_0", DOWN, ACTIVE)
    (nic,) = read_network(tmp_path, {}).nics
    assert (nic.up, nic.mbit_per_second) == (True, 400_000)


def test_a_port_that_is_down_has_no_rate(tmp_path):
    rdma(tmp_path, a_card(tmp_path, CARD), "mlx5_0", DOWN)
    (nic,) = read_network(tmp_path, {}).nics
    assert (nic.up, nic.mbit_per_second, nic.link_layer) == (False, 0, "Ethernet")


def test_an_interface_of_a_virtual_card_takes_place_and_node_from_its_pci_device(tmp_path):
    carrier = a_card(tmp_path, "devices/pci0000:00/0000:00:03.0", numa=-1)
    (carrier / "virtio0").mkdir()
    interface(tmp_path, carrier / "virtio0", "eth0", speed="-1")
    (nic,) = read_network(tmp_path, {}).nics
    assert (nic.name, nic.rdma, nic.up, nic.mbit_per_second) == ("eth0", False, True, 0)
    assert (nic.place.bus_id, nic.place.numa_node) == ("0000:00:03.0", None)


def test_loopback_usb_and_shares_of_a_card_are_left_out(tmp_path):
    lo = tmp_path / "devices/virtual/net/lo"
    lo.mkdir(parents=True)
    (tmp_path / "class/net").mkdir(parents=True)
    (tmp_path / "class/net/lo").symlink_to(lo)
    usb = tmp_path / "devices/pci0000:00/0000:00:14.0/usb1/1-1"
    usb.mkdir(parents=True)
    interface(tmp_path, usb, "enx0")
    share = a_card(tmp_path, CARD)
    (share / "physfn").mkdir()
    rdma(tmp_path, share, "mlx5_9", ACTIVE)
    interface(tmp_path, share, "ib9")
    assert read_network(tmp_path, {}).nics == ()


def test_a_file_that_is_missing_or_says_nonsense_leaves_its_field_empty(tmp_path):
    card = a_card(tmp_path, CARD)
    rdma(tmp_path, card, "mlx5_0", ("4: ACTIVE", "fast", ""))
    (card / "numa_node").write_bytes(b"\xff\xfe")
    (nic,) = read_network(tmp_path, {}).nics
    assert (nic.mbit_per_second, nic.link_layer, nic.place.numa_node) == (0, "", None)


def test_a_machine_without_sysfs_has_no_nics_and_no_places(tmp_path):
    network = read_network(tmp_path / "nowhere", {0: "00000000:18:00.0", 1: "?"})
    assert (network.nics, dict(network.gpus), network.rails()) == ((), {}, {})


def test_nics_are_numbered_rdma_first_and_ten_after_nine(tmp_path):
    for number in (10, 9, 2):
        card = a_card(tmp_path, f"devices/pci0000:{number:02x}/0000:{number:02x}:01.0")
        rdma(tmp_path, card, f"mlx5_{number}", ACTIVE)
    plain = a_card(tmp_path, "devices/pci0000:80/0000:80:01.0")
    interface(tmp_path, plain, "eth0")
    nics = read_network(tmp_path, {}).nics
    assert [(n.index, n.name) for n in nics] == [
        (0, "mlx5_2"),
        (1, "mlx5_9"),
        (2, "mlx5_10"),
        (3, "eth0"),
    ]


def test_the_tree_is_the_named_one_then_the_simulated_one_then_the_kernels(tmp_path, monkeypatch):
    monkeypatch.delenv("TESSERA_SYSFS", raising=False)
    assert sysfs_root() == Path("/sys")
    assert sysfs_root(tmp_path) == tmp_path
    monkeypatch.setenv("TESSERA_SYSFS", "/elsewhere")
    assert sysfs_root(tmp_path) == Path("/elsewhere")


def a_nic(index: int, root: int, *, rdma: bool = True, up: bool = True, numa: int = 0) -> Nic:
    place = PciPlace(f"pci0000:{root}0", (f"0000:{root}0:01.0", f"0000:{root}c:00.0"), numa)
    return Nic(index, f"mlx5_{index}", place, rdma=rdma, up=up)


def a_gpu(root: int, *, numa: int = 0) -> PciPlace:
    return PciPlace(f"pci0000:{root}0", (f"0000:{root}0:01.0", f"0000:{root}8:00.0"), numa)


def rails(gpus: list[PciPlace], *nics: Nic) -> dict[int, int]:
    network = Network(nics, dict(enumerate(gpus)))
    return {gpu: nic.index for gpu, nic in network.rails().items()}


def test_the_nearest_nic_is_the_rail():
    assert rails([a_gpu(1), a_gpu(2)], a_nic(0, 2), a_nic(1, 1)) == {0: 1, 1: 0}


def test_equally_near_nics_are_shared_out_evenly():
    gpus = [a_gpu(1), a_gpu(2), a_gpu(3), a_gpu(4)]
    assert rails(gpus, a_nic(0, 8), a_nic(1, 9)) == {0: 0, 1: 1, 2: 0, 3: 1}


@pytest.mark.parametrize("field", ["rdma", "up"])
def test_a_nearer_nic_that_is_down_or_without_rdma_is_no_rail(field):
    assert rails([a_gpu(1)], a_nic(0, 1, **{field: False}), a_nic(1, 2, numa=1)) == {0: 1}


def test_without_rdma_any_nic_is_a_rail_and_without_nics_there_is_none():
    assert rails([a_gpu(1)], a_nic(0, 1, rdma=False)) == {0: 0}
    assert rails([a_gpu(1)], a_nic(0, 1, up=False)) == {}
