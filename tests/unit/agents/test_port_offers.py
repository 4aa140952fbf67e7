"""Two gangs on one node never meet at one port, though neither listens when it is offered."""

import socket

import pytest

from agents.runtime import port_offers
from agents.runtime.port_offers import PORTS, PortOffers
from agents.runtime.process import ProcessRuntime
from tests.contract.replicas import a_replica

HERE = "127.0.0.1"


@pytest.fixture(autouse=True)
def worst_case(monkeypatch):
    """Every search begins at the same port."""
    monkeypatch.setattr(port_offers.zlib, "crc32", lambda _: 4_000)


def test_what_is_offered_to_one_gang_is_not_offered_to_another():
    offers = PortOffers(HERE)
    one, two = offers.offer("r-1", ()), offers.offer("r-2", ())
    assert one != two
    assert offers.offer("r-1", ()) == one, "its container may have to be created again"
    offers.keep(["r-2"])
    assert offers.offer("r-3", ()) == one


def test_an_agent_that_starts_anew_offers_nothing_twice(tmp_path):
    replicas = [a_replica() for _ in "12"]
    runtimes = [ProcessRuntime(tmp_path / "replicas") for _ in replicas]
    for runtime, replica in zip(runtimes, replicas, strict=True):
        runtime.prepare(replica, ())
    ports = {seen.port for seen in runtimes[0].containers().values()}
    for runtime, replica in zip(runtimes, replicas, strict=True):
        runtime.stop(replica.id, 0)
        runtime.close()
    assert len(ports) == 2


def test_a_port_that_somebody_listens_at_is_left_alone():
    expected = PortOffers(HERE).offer("r-1", ())
    with socket.create_server((HERE, expected)):
        assert PortOffers(HERE).offer("r-1", ()) != expected


def test_the_kernel_lends_no_offered_port_to_a_connection(monkeypatch, tmp_path):
    lent = tmp_path / "range"
    lent.write_text(f"{PORTS[0]}\t{PORTS[9_000]}\n")
    monkeypatch.setattr(port_offers, "LENT_BY_KERNEL", lent)
    assert PortOffers(HERE).offer("r-1", ()) > PORTS[9_000]
    lent.write_text("1024\t65535\n")
    assert PortOffers(HERE).offer("r-1", ()) > 0, "rather a lent one than none"


def test_the_next_attempt_meets_elsewhere(monkeypatch):
    monkeypatch.undo()
    assert len({PortOffers(HERE).offer(f"r-{n}", ()) for n in range(20)}) == 20
