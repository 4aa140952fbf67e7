"""A web process that is told to end: what has begun to reach it is served, what has not goes
elsewhere, and nothing is reset."""

import signal
import socket
import time

import httpx
import pytest

from portal.draining import LAST_REQUESTS_SECONDS
from tests.services.stack import Stack, until

pytestmark = pytest.mark.services

REQUEST = b"POST /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture
def web(tmp_path):
    """One web process, which drains for as long as the test sets."""
    stack = Stack(var=tmp_path / "var", nodes=())

    def start(drain_seconds: float) -> Stack:
        stack.extra_env["TESSERA_DRAIN_SECONDS"] = str(drain_seconds)
        stack.seed("tests.services.seed")
        stack.start_web()
        return stack

    try:
        yield start
    finally:
        stack.__exit__()


def connect(stack: Stack, seconds: float = 60) -> socket.socket:
    return socket.create_connection(("127.0.0.1", stack.port), timeout=seconds)


@pytest.mark.slow
def test_it_serves_as_before_while_it_reports_that_it_drains(web):
    stack = web(drain_seconds=600)
    process = stack.running["web"]
    process.send_signal(signal.SIGTERM)

    def unready() -> bool:
        return stack.http.get(f"{stack.url}/readyz").status_code == httpx.codes.SERVICE_UNAVAILABLE

    until(unready, what="the probe to report it")
    assert stack.http.get(f"{stack.url}/livez").is_success
    assert stack.call("GET", "/me")
    # A second signal waits for nobody.
    process.send_signal(signal.SIGTERM)
    assert process.wait(300) in (0, -signal.SIGTERM)


@pytest.mark.slow
def test_a_request_on_a_connection_made_before_the_door_closed_is_served(web):
    """It would be reset by a server that closes its sockets first: nobody has accepted it."""
    stack = web(drain_seconds=0)
    process = stack.running["web"]
    # Stopped, it accepts nothing: the kernel completes the connection and queues it.
    process.send_signal(signal.SIGSTOP)
    with connect(stack) as early:
        early.sendall(REQUEST)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        assert early.recv(100).startswith(b"HTTP/1.1 405 ")
    assert process.wait(300) in (0, -signal.SIGTERM)


@pytest.mark.slow
def test_a_stream_ends_when_its_process_refuses_connections(web):
    """So a proxy takes it to another process at once, and does not wait for this one first."""
    stack = web(drain_seconds=0)
    headers = {"Authorization": f"Token {stack.seeded['token']}"}
    url = f"{stack.url}/api/v1/events/stream"
    with stack.http.stream("GET", url, headers=headers) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "retry: 1000"
        stack.running["web"].send_signal(signal.SIGTERM)
        # The stream ends here, with a sooner return.
        (pause,) = [int(line.split()[1]) for line in lines if line.startswith("retry: ")]
        with pytest.raises(ConnectionRefusedError):
            connect(stack)
    assert pause < 1000


@pytest.mark.slow
def test_a_connection_after_the_door_closed_is_never_made(web):
    """So a proxy, which has sent nothing on it, may take another web process for any request."""
    stack = web(drain_seconds=0)
    process = stack.running["web"]
    process.send_signal(signal.SIGTERM)
    while process.poll() is None:
        is_answered, seconds = is_call_answered(stack)
        # A connection that is made is one that is answered, if its request follows at once: where
        # this test was kept from the processor meanwhile, it says nothing.
        assert is_answered or seconds > LAST_REQUESTS_SECONDS / 2
        time.sleep(0.001)
    with pytest.raises(ConnectionRefusedError):
        connect(stack)


def is_call_answered(stack: Stack) -> tuple[bool, float]:
    """Whether a connection was not made or its request was answered, and how long it took to send
    that."""
    begun = time.monotonic()
    try:
        each = connect(stack, seconds=0.05)
    except (TimeoutError, ConnectionRefusedError):
        return True, 0.0
    with each:
        each.settimeout(60)
        try:
            each.sendall(REQUEST)
            seconds = time.monotonic() - begun
            return each.recv(100).startswith(b"HTTP/1.1 405 "), seconds
        except ConnectionError:
            return False, time.monotonic() - begun
