"""An agent's address for other nodes is watched: it starts anew with the next one."""

import asyncio

import pytest

from agents.commands.address_watch import address_change
from agents.overlay.interfaces import is_own_address


def watched(address, *, owned=(), found=()):
    """What the watch returns, and how often it looked for the way to the portal. `owned`: whether
    the machine has the address, each time; then it has not."""
    owned, found, looks = iter(owned), iter(found), []

    def towards(urls):
        looks.append(urls)
        return next(found)

    change = address_change(
        address, ["https://portal"], seconds=0, is_own=lambda _: next(owned, False), towards=towards
    )
    return asyncio.run(change), len(looks)


def test_the_next_address_counts_once_the_machine_has_lost_its_own():
    assert watched("192.0.2.1", owned=[True, True], found=["192.0.2.9"]) == ("192.0.2.9", 1)


def test_without_another_one_the_agent_goes_on_as_it_is():
    """A lease that is renewed takes the address away for a moment."""
    found = ["", "192.0.2.1", "192.0.2.9"]
    assert watched("192.0.2.1", found=found) == ("192.0.2.9", 3)


def test_an_agent_that_started_before_its_network_waits_for_it():
    assert watched("", found=["", "192.0.2.9"]) == ("192.0.2.9", 2)


@pytest.mark.parametrize(("address", "expected"), [("127.0.0.1", True), ("192.0.2.77", False)])
def test_a_machine_knows_its_own_addresses(address, expected):
    assert is_own_address(address) is expected
