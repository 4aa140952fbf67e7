"""What we count on from a Docker Engine, checked against a real one."""

from collections.abc import Iterator
from uuid import uuid4

import docker
import pytest
from docker.models.containers import Container
from docker.models.networks import Network
from docker.types import DeviceRequest

pytestmark = pytest.mark.docker

SLICE = "MIG-6f5a1c2e-8a1b-5c7d-9e10-0123456789ab"
SERVE_ONCE = """
import socket
with socket.create_server(("", 29500)) as server:
    with server.accept()[0] as caller:
        caller.sendall(b"rank 0 says hello")
"""
CALL = """
import socket, sys, time
for _ in range(100):
    try:
        caller = socket.create_connection((sys.argv[1], 29500), timeout=5)
        break
    except OSError:
        time.sleep(0.1)
print(caller.recv(100).decode())
"""
FILL_MEMORY = "held = [bytearray(1 << 20) for _ in range(1024)]"


@pytest.fixture
def client(docker_engine: str, docker_image: str) -> Iterator[docker.DockerClient]:
    client = docker.DockerClient(base_url=docker_engine, timeout=60)
    yield client
    for container in client.containers.list(all=True, filters={"label": "tessera.test=engine"}):
        container.remove(force=True)
    client.close()


@pytest.fixture
def network(client: docker.DockerClient) -> Iterator[Network]:
    network = client.networks.create(f"tessera-test-{uuid4().hex[:8]}", driver="bridge")
    assert network.id
    yield network
    for container in client.containers.list(all=True, filters={"network": network.id}):
        container.remove(force=True)
    network.remove()


def start(client: docker.DockerClient, image: str, *command: str, **options) -> Container:
    labels = {"tessera.test": "engine"}
    return client.containers.run(image, list(command), detach=True, labels=labels, **options)


def test_the_engine_answers(client: docker.DockerClient):
    assert client.ping()
    assert client.version()["ApiVersion"] >= "1.41"


def test_the_example_image_runs_python_as_an_ordinary_user(client, docker_image):
    program = "import hashlib, json, socket, ssl, sqlite3, os; print(os.getuid())"
    container = start(
        client, docker_image, "python3", "-c", program, user="65534", network_mode="none"
    )
    assert container.wait()["StatusCode"] == 0, container.logs().decode()
    assert container.logs() == b"65534\n"


def test_a_device_request_names_the_slice_to_the_container(client, docker_image):
    wanted = DeviceRequest(driver="nvidia", device_ids=[SLICE], capabilities=[["gpu"]])
    show = "import os; print(os.environ['NVIDIA_VISIBLE_DEVICES'])"
    container = start(client, docker_image, "python3", "-c", show, device_requests=[wanted])
    assert container.wait()["StatusCode"] == 0, container.logs().decode()
    assert container.logs().decode().strip() == SLICE


def test_containers_of_one_network_reach_each_other_by_name(client, docker_image, network):
    name = f"tessera-test-{uuid4().hex[:8]}"
    start(client, docker_image, "python3", "-c", SERVE_ONCE, name=name, network=network.id)
    caller = start(client, docker_image, "python3", "-c", CALL, name, network=network.id)
    assert caller.wait(timeout=60)["StatusCode"] == 0, caller.logs().decode()
    assert caller.logs() == b"rank 0 says hello\n"


def test_too_much_memory_ends_as_oom_killed(client, docker_image):
    limits = {"mem_limit": "64m", "memswap_limit": "64m"}
    container = start(client, docker_image, "python3", "-c", FILL_MEMORY, **limits)
    assert container.wait(timeout=60)["StatusCode"] == 137
    container.reload()
    assert container.attrs["State"]["OOMKilled"] is True


def test_a_container_ends_on_sigterm_with_its_own_exit_code(client, docker_image):
    program = (
        "import signal, sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
        "print('ready')\n"
        "signal.sigwait([signal.SIGTERM])\n"
        "sys.exit(75)\n"
    )
    container = start(client, docker_image, "python3", "-c", program)
    lines = container.logs(stream=True)
    assert next(lines) == b"ready\n"
    container.stop(timeout=20)
    assert list(lines) == []  # read to its end: the SDK leaks the socket of a stream left open
    assert container.wait()["StatusCode"] == 75
