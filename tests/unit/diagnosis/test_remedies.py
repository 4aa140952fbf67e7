"""One button mends a failure where a changed request does: the next larger device, memory, time."""

import pytest

from agents.contract.boards import known_boards
from agents.contract.message import Message
from portal.diagnosis.larger_devices import RequestableFleet, larger_device
from portal.diagnosis.log_text import FailureLine
from portal.diagnosis.remedies import REMEDIES, RemedyAction, remedy_for
from portal.diagnosis.values import FailureFinding
from portal.jobs.failure_causes import Confidence, FailureCause

BOARDS = known_boards()
H200, L40S, T4 = BOARDS["H200-141GB"], BOARDS["L40S-48GB"], BOARDS["T4-16GB"]
FLEET = RequestableFleet((H200, L40S, T4), host_memory_mib=1 << 20, max_time_limit_seconds=86_400)


def a_finding(cause: FailureCause, text: str = "", **values) -> FailureFinding:
    line = FailureLine(0, 1, text)
    return FailureFinding(cause, Confidence.CERTAIN, Message(cause.label), line, values)


def a_request(**fields):
    return {"device": {"gpus": 1}, "memory": "4GiB", "shm": "2GiB", "time_limit": "1h"} | fields


@pytest.mark.parametrize(
    ("device", "needed_mib", "larger", "label"),
    [
        ({"mig": "1g.18gb"}, 0, {"mig": "1g.35gb"}, "35 GB"),
        ({"mig": "1g.18gb"}, 60_000, {"mig": "3g.71gb"}, "71 GB"),
        (
            {"mig": "1g.18gb", "models": ["H200"]},
            0,
            {"mig": "1g.35gb", "models": ["H200"]},
            "35 GB",
        ),
        ({"mig": "7g.141gb"}, 0, None, ""),
        ({"gpus": 2, "models": ["T4"]}, 0, {"gpus": 2, "models": ["L40S"]}, "2 × L40S (45 GiB)"),
        ({"gpus": 1, "models": ["H200"]}, 0, None, ""),
        ({"gpus": 1}, 90_000, {"gpus": 1, "models": ["H200"]}, "H200 (140 GiB)"),
        ({"memory": "16GiB"}, 0, {"memory": "32GiB"}, "32 GiB of GPU memory"),
        ({"memory": "140GiB"}, 0, None, ""),
        (
            {"mps": {"threads": 25, "memory": "8GiB"}},
            0,
            {"mps": {"threads": 25, "memory": "16GiB"}},
            "16 GiB of GPU memory",
        ),
    ],
)
def test_the_next_larger_device_of_the_fleet(device, needed_mib, larger, label):
    offer = larger_device(device, FLEET, needed_mib)
    assert (offer.device if offer else None) == larger
    assert (offer.label.text if offer else "") == label


def test_a_fleet_without_gpus_has_none():
    assert larger_device({"mig": "1g.18gb"}, RequestableFleet()) is None


def test_what_pytorch_says_it_needed_is_asked_for():
    text = (
        "CUDA out of memory. Tried to allocate 40.00 GiB (GPU 0; 17.50 GiB total capacity; "
        "16.31 GiB already allocated; 0.50 GiB free; 16.60 GiB reserved in total by PyTorch)"
    )
    remedy = remedy_for(
        a_finding(FailureCause.GPU_MEMORY, text), a_request(device={"mig": "1g.18gb"}), FLEET
    )
    assert remedy.label.text == "Ask again with 71 GB"


def test_host_memory_doubles_up_to_the_largest_node():
    finding = a_finding(FailureCause.HOST_MEMORY)
    assert remedy_for(finding, a_request(), FLEET).changes == {"memory": "8GiB"}
    largest = a_request(memory="1TiB")
    assert remedy_for(finding, largest, FLEET).action is RemedyAction.NONE
    needed = a_finding(FailureCause.HOST_MEMORY, size="298. GiB")
    assert remedy_for(needed, a_request(), FLEET).changes == {"memory": "302GiB"}


def test_shared_memory_brings_the_memory_that_it_is_a_part_of():
    finding = a_finding(FailureCause.SHARED_MEMORY)
    remedy = remedy_for(finding, a_request(), FLEET)
    assert remedy.changes == {"shm": "4GiB", "memory": "8GiB"}
    assert remedy.label.text == "Ask again with 4 GiB of /dev/shm"


def test_the_time_limit_doubles_up_to_the_longest_allowed():
    finding = a_finding(FailureCause.TIME_LIMIT)
    assert remedy_for(finding, a_request(), FLEET).changes == {"time_limit": "2h"}
    assert remedy_for(finding, a_request(time_limit="24h"), FLEET).action is RemedyAction.NONE


def test_every_cause_has_a_remedy_and_every_button_a_label():
    changed = {"GPU_MEMORY", "HOST_MEMORY", "SHARED_MEMORY", "TIME_LIMIT"}
    assert {cause.name for cause in FailureCause} - changed == {cause.name for cause in REMEDIES}
    for remedy in REMEDIES.values():
        assert bool(remedy.label) == (remedy.action is not RemedyAction.NONE)
        assert bool(remedy.field) == (remedy.action is RemedyAction.EDIT)
