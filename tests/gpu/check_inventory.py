"""What the driver says of the machine and of each GPU."""

import re

from agents.contract.boards import known_boards

UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
BUS = re.compile(r"[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-9A-F]", re.IGNORECASE)


def test_versions_are_numbers_with_dots(reading):
    assert all(re.fullmatch(r"\d+(\.\d+)+", v) for v in reading["versions"].values())


def test_every_gpu_that_is_counted_answers(reading):
    assert len(reading["gpus"]) == reading["count"]
    assert [gpu["index"] for gpu in reading["gpus"]] == list(range(reading["count"]))


def test_nothing_that_the_agent_reads_is_refused(reading):
    assert reading["refusals"] == {}


def test_no_two_gpus_share_a_uuid_or_a_place_on_the_bus(reading):
    for name in ("uuid", "pci_bus_id"):
        found = [gpu[name] for gpu in reading["gpus"]]
        assert len(set(found)) == len(found)


def test_uuid_and_bus_id_are_written_as_we_parse_them(gpu):
    assert UUID.fullmatch(gpu["uuid"])
    assert BUS.fullmatch(gpu["pci_bus_id"])


def test_a_board_that_is_known_by_name_has_about_the_memory_of_the_table(gpu):
    """Within 5 %: the driver keeps a part, and a name may stand for boards of several sizes."""
    if gpu["board"]:
        expected = known_boards()[gpu["board"]].memory_mib
        assert abs(gpu["memory_mib"] - expected) <= expected * 0.05


def test_mig_modes_are_told_exactly_where_the_board_of_the_table_has_mig(gpu):
    told = [gpu["mig_current"] is not None, gpu["mig_pending"] is not None]
    assert told[0] == told[1]
    if gpu["board"]:
        assert told[0] == known_boards()[gpu["board"]].supports_mig
