"""What jobs reach beyond their gang, by the policy of their project: on a machine with an engine,
beside one with services at a private, a public and a metadata address."""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from agents.contract.egress import EgressPolicy
from agents.overlay.egress import CHECK_SECONDS, TABLE, EgressTable
from tests.contract.replicas import Watch, a_replica, go, whole_log
from tests.docker.gang_over_engines import a_gang_over
from tests.docker.gang_programs import LISTEN, REACHED
from tests.docker.two_engines import METADATA, EngineMachine, two_engines
from tests.environment.programs import Program

pytestmark = [pytest.mark.docker, pytest.mark.slow]

SERVICE = 8_099
# Of the Internet, as far as the rules know.
PUBLIC = "203.0.113.9"
OPEN_PLACES = {
    EgressPolicy.ALL: {"private", "public"},
    EgressPolicy.INTERNET: {"public"},
    EgressPolicy.NONE: set(),
}
# Every name is at that address.
NAME_SERVER = f"""
import socket
server = socket.socket(type=socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
print("up", flush=True)
while True:
    query, client = server.recvfrom(512)
    question = query[12 : query.index(0, 12) + 5]
    head = query[:2] + b"\\x81\\x80" + b"\\0\\1" * 2 + b"\\0" * 4
    answer = b"\\xc0\\x0c\\0\\1\\0\\1" + b"\\0\\0\\0\\1\\0\\4" + socket.inet_aton("{PUBLIC}")
    server.sendto(head + question + answer, client)
"""
# Prints the address of a name, or that there is none.
NAMED = """
import socket, sys
try:
    print(socket.gethostbyname(sys.argv[1]))
except OSError:
    print("unknown")
"""


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> Iterator[tuple[EngineMachine, EngineMachine]]:
    with two_engines(tmp_path_factory.mktemp("machines")) as (own, other):
        other.run("ip", "address", "add", f"{PUBLIC}/32", "dev", "lo")
        own.run("ip", "route", "add", PUBLIC, "via", other.address)
        services = [a_service(each, LISTEN, str(SERVICE)) for each in (own, other)]
        own.places = {
            "node": own.address,
            "bridge": "172.17.0.1",
            "private": other.address,
            "public": PUBLIC,
            "metadata": METADATA,
        }
        yield own, other
        for service in services:
            service.kill()


@pytest.fixture
def machine(pair) -> EngineMachine:
    return pair[0]


def a_service(machine: EngineMachine, program: str, *arguments: str) -> Program:
    machine.home.mkdir(exist_ok=True)
    log = machine.home / "service.log"
    log.unlink(missing_ok=True)
    command = [*machine.enter, sys.executable, "-c", program, *arguments]
    service = Program(command, log=log, environ=os.environ)
    service.wait_ready(lambda: "up" in log.read_text())
    return service


def printed(machine: EngineMachine, policy: EgressPolicy, program: str, *arguments: str) -> str:
    """By a job of a project with this policy."""
    runtime = machine.agent()
    job = a_replica(command=("python3", "-c", program, *arguments), egress=policy)
    with machine.network():
        assert runtime.limits_egress
        go(runtime, job)
        Watch(runtime).ended(job)
        told = whole_log(runtime, job.id).decode()
        runtime.remove(job.id)
    return told


@pytest.mark.parametrize("policy", list(EgressPolicy))
def test_a_job_reaches_what_its_project_allows_and_never_its_node_or_the_metadata(machine, policy):
    by_place = {f"{address}:{SERVICE}": name for name, address in machine.places.items()}
    shown = machine.run(sys.executable, "-c", REACHED, *by_place).split()
    assert set(shown) == set(by_place), "the node reaches them all, or this test shows nothing"
    told = printed(machine, policy, REACHED, *by_place).split()
    assert {by_place[place] for place in told} == OPEN_PLACES[policy]


@pytest.mark.parametrize("policy", list(EgressPolicy))
def test_a_gang_over_several_nodes_reaches_itself_and_what_its_project_allows(pair, policy):
    by_place = {f"{address}:{SERVICE}": name for name, address in pair[0].places.items()}
    gang = a_gang_over(pair, LISTEN, "4242")
    gang.replicas = [
        replace(each, egress=policy, gang_network=replace(each.gang_network, egress=policy))
        for each in gang.replicas
    ]
    gang.prepare()
    gang.start()
    for _, runtime, replica in gang.each():
        Watch(runtime).says(replica, b"up")
    own = gang.places([4_242])
    told = gang.reached(0, *own, *by_place)
    assert told >= set(own)
    # The other machine is a node of the gang.
    assert {by_place[place] for place in told - set(own)} == OPEN_PLACES[policy] - {"private"}
    gang.remove()


@pytest.mark.parametrize(
    ("policy", "address"),
    [(EgressPolicy.ALL, PUBLIC), (EgressPolicy.INTERNET, PUBLIC), (EgressPolicy.NONE, "unknown")],
)
def test_a_job_that_reaches_nothing_has_no_names_resolved_for_it(machine, policy, address):
    """Neither by the engine, where its machine asks on loopback."""
    conf = machine.home / "resolv.conf"
    conf.write_text("nameserver 127.0.0.1\n")
    machine.run("mount", "--bind", str(conf), "/etc/resolv.conf")
    service = a_service(machine, NAME_SERVER)
    try:
        assert machine.run(sys.executable, "-c", NAMED, "data.example").strip() == PUBLIC
        assert printed(machine, policy, NAMED, "data.example").strip() == address
    finally:
        service.kill()
        machine.run("umount", "/etc/resolv.conf")


def test_a_table_that_others_remove_is_made_again(machine):
    now = 0.0
    with machine.network():
        table = EgressTable(clock=lambda: now)
        assert table.keep()
        rules = machine.run("nft", "list", "table", "inet", TABLE)
        machine.run("nft", "delete", "table", "inet", TABLE)
        now += CHECK_SECONDS
        assert table.keep()
    assert machine.run("nft", "list", "table", "inet", TABLE) == rules
