"""How far apart two PCI devices are, by their paths in sysfs: recorded ones, and edges."""

import pytest

from agents.facts.wiring import PathLevel
from agents.topology.pci import PciPlace, kernel_bus_id, level_between, place_of


def at(path: str, numa: int | None = 0) -> PciPlace:
    place = place_of(["sys", "devices", *path.split("/")], numa)
    assert place is not None
    return place


# A DGX A100 as NCCL saw it (NVIDIA/nccl issue 1505): GPU 07, 0f and NIC 0c, 12 below one root port.
DGX = "pci0000:00/0000:00:01.1/0000:01:00.0/0000:02"
A100_GPU = at(f"{DGX}:00.0/0000:03:00.0/0000:04:00.0/0000:07:00.0")
A100_NIC = at(f"{DGX}:04.0/0000:0a:00.0/0000:0b:00.0/0000:0c:00.0")
A100_OTHER = at("pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:00.0/0000:47:00.0")
A100_FAR = at("pci0000:80/0000:80:01.1/0000:81:00.0/0000:82:00.0/0000:87:00.0", 1)

BESIDE = "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12"
LEVELS = [
    ("gpu and nic on sister switches of one box", A100_GPU, A100_NIC, "PXB"),
    ("two host bridges of one socket", A100_GPU, A100_OTHER, "NODE"),
    ("two sockets", A100_GPU, A100_FAR, "SYS"),
    (
        "two ports of one switch",
        at(f"{BESIDE}:00.0/0000:18:00.0"),
        at(f"{BESIDE}:01.0/0000:28:00.0"),
        "PIX",
    ),
    (
        "two ports of one card",
        at("pci0000:90/0000:90:01.0/0000:98:00.0"),
        at("pci0000:90/0000:90:01.0/0000:98:00.1"),
        "PIX",
    ),
    (
        "a switch below a switch",
        at(f"{BESIDE}:00.0/0000:18:00.0"),
        at(f"{BESIDE}:01.0/0000:20:00.0/0000:21:00.0/0000:28:00.0"),
        "PXB",
    ),
    (
        "two root ports of one host bridge",
        at("pci0000:10/0000:10:01.0/0000:18:00.0"),
        at("pci0000:10/0000:10:02.0/0000:28:00.0"),
        "PHB",
    ),
    (
        "two devices on the root bus of a virtual machine",
        at("pci0000:00/0000:00:05.0"),
        at("pci0000:00/0000:00:06.0"),
        "PHB",
    ),
    ("itself", A100_GPU, A100_GPU, "INT"),
    ("nodes untold by a kernel without NUMA", at("pci0000:00/0000:00:05.0", None),
     at("pci0001:00/0001:00:05.0", None), "NODE"),
    ("one node untold", at("pci0000:00/0000:00:05.0", None), A100_FAR, "SYS"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "word"), [c[1:] for c in LEVELS], ids=[c[0] for c in LEVELS]
)
def test_the_level_is_what_the_path_crosses_from_both_ends(one, other, word):
    assert level_between(one, other) is level_between(other, one) is PathLevel(word)


def test_what_follows_the_pci_device_is_no_part_of_its_path():
    place = at("pci0000:00/0000:00:03.0/virtio0/net/eth0")
    assert (place.root, place.steps, place.bus_id) == (
        "pci0000:00",
        ("0000:00:03.0",),
        "0000:00:03.0",
    )


@pytest.mark.parametrize(
    "path", ["virtual/net/lo", "platform/soc/eth0", "pci0000:00", "pci0000:00/power"]
)
def test_what_hangs_on_no_pci_device_has_no_place(path):
    assert place_of(["sys", "devices", *path.split("/")]) is None


@pytest.mark.parametrize(
    ("driver", "kernel"),
    [("00000000:18:00.0", "0000:18:00.0"), ("00010000:CA:00.0", "10000:ca:00.0")],
)
def test_the_drivers_bus_id_is_written_as_the_kernel_does(driver, kernel):
    assert kernel_bus_id(driver) == kernel


def test_a_bus_id_that_is_none_is_refused():
    with pytest.raises(ValueError, match="invalid literal"):
        kernel_bus_id("")
