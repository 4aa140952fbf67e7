"""The sampler and what rests on it: a driver that hangs, refuses or lies harms nobody else, and
the portal is asked no oftener than it wants."""

import asyncio
import json
import threading
import urllib.request

import httpx
import pytest

from agents.contract.codec import encode
from agents.contract.documents import ObservedDocument, ObservedGpu
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.telemetry import GpuSample, TelemetryResponse
from agents.nvml.errors import NvmlCode, NvmlFailure
from agents.portal.client import PortalClient
from agents.route.portal_route import PortalRoute
from agents.telemetry.endpoint import EndpointFailure, MetricsEndpoint
from agents.telemetry.sampler import MIN_SECONDS, Sampler
from agents.telemetry.service import Telemetry
from agents.telemetry.settings import Address, address, sample_seconds

PATIENCE = 300  # a bound for what never comes; nothing waits so long
SAMPLE = GpuSample(uuid="GPU-1", power_mw=1_000)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Senses:
    """Answers, unless told to hang or to refuse."""

    def __init__(self):
        self.hangs = threading.Event()
        self.asked = threading.Event()
        self.goes_on = threading.Event()
        self.closed = threading.Event()
        self.answered = threading.Event()
        self.refusal: Exception | None = None

    def sample(self):
        self.asked.set()
        if self.hangs.is_set():
            self.goes_on.wait(PATIENCE)
        if self.refusal is not None:
            raise self.refusal
        self.answered.set()
        return (SAMPLE,)

    def close(self):
        self.closed.set()


@pytest.fixture
def senses():
    found = Senses()
    yield found
    found.goes_on.set()


def a_document() -> ObservedDocument:
    return ObservedDocument(node="n-1", gpus=(ObservedGpu(uuid="GPU-1"),))


def sampled(senses: Senses, clock: Clock | None = None) -> Sampler:
    """A sampler that has looked once, without its thread."""
    sampler = Sampler(10, lambda: senses, clock or Clock())
    sampler.sample(senses)
    return sampler


def test_it_looks_in_a_thread_of_its_own_and_closes_its_session_there(senses):
    sampler = Sampler(10, lambda: senses)
    sampler.start()
    assert senses.asked.wait(PATIENCE)
    sampler.stop()
    assert senses.closed.wait(PATIENCE)
    assert sampler.last.samples == (SAMPLE,)


def test_a_driver_that_hangs_keeps_nobody_waiting(senses, monkeypatch):
    monkeypatch.setattr("agents.telemetry.sampler.PATIENCE_SECONDS", 0)
    senses.hangs.set()
    sampler = Sampler(10, lambda: senses)
    telemetry = Telemetry("host-1", sampler, None)
    telemetry.start(lambda: 1)
    assert senses.asked.wait(PATIENCE)
    assert telemetry.state().samples == ()
    assert list(telemetry.families())
    telemetry.stop()
    assert not senses.closed.is_set()


@pytest.mark.parametrize(
    "refusal", [NvmlFailure(NvmlCode.UNKNOWN, "unknown error"), ValueError("not of the driver")]
)
def test_a_driver_that_refuses_is_counted_and_asked_again_in_a_new_session(senses, refusal):
    senses.refusal = refusal
    made = []

    def make():
        made.append(senses)
        if len(made) == 2:
            senses.refusal = None
        return senses

    sampler = Sampler(10, make)
    sampler.every_seconds = 0
    sampler.start()
    assert senses.answered.wait(PATIENCE)
    sampler.stop()
    assert (sampler.failures, len(made)) == (1, 2)


def test_it_never_looks_oftener_than_once_a_second(senses):
    assert Sampler(0.01, lambda: senses).every_seconds == MIN_SECONDS


def test_a_look_that_is_too_old_is_no_longer_told_of_devices_but_its_age_is(senses):
    clock = Clock()
    telemetry = Telemetry("host-1", sampled(senses, clock), None)
    telemetry.tap_reports(lambda _: None)(a_document())
    assert telemetry.state().samples == (SAMPLE,)
    clock.now += 61
    assert (telemetry.state().samples, telemetry.state().age_seconds) == ((), 61)


def test_what_the_portal_is_told_is_known_here_too():
    told = []
    telemetry = Telemetry("host-1", None, None)
    telemetry.tap_reports(told.append)(a_document())
    assert telemetry.state().document == told[0] == a_document()


def test_the_page_answers_over_http_in_the_text_format(senses):
    telemetry = Telemetry("host-1", sampled(senses), None)
    telemetry.tap_reports(lambda _: None)(a_document())
    endpoint = MetricsEndpoint(Address("127.0.0.1", 0), telemetry.families)
    try:
        url = f"http://127.0.0.1:{endpoint.port}/metrics"
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert b'DCGM_FI_DEV_POWER_USAGE{GPU_I_ID="",' in answer.read()
        with pytest.raises(EndpointFailure, match=f"metrics at 127.0.0.1:{endpoint.port}"):
            MetricsEndpoint(Address("127.0.0.1", endpoint.port), telemetry.families)
    finally:
        endpoint.close()


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("9400", Address("127.0.0.1", 9400)),
        (":9400", Address("127.0.0.1", 9400)),
        ("127.0.0.1:9400", Address("127.0.0.1", 9400)),
        ("0.0.0.0:9400", Address("0.0.0.0", 9400)),
        ("[::1]:9400", Address("::1", 9400)),
    ],
)
def test_an_address_is_loopback_unless_it_says_otherwise(words, meant):
    assert address(words) == meant
    assert address(str(meant)) == meant


@pytest.mark.parametrize("words", ["", "host", "host:port", "::1:9400", "[x]:1", "h:70000", "h:-1"])
def test_an_address_that_is_none_is_refused(words):
    with pytest.raises(ValueError):
        address(words)


@pytest.mark.parametrize("words", ["0", "1", "10", "3600", "2.5"])
def test_the_time_between_looks_is_bounded_or_there_are_none(words):
    assert sample_seconds(words) == float(words)


@pytest.mark.parametrize("words", ["", "-1", "0.5", "nan", "inf", "3601", "ten"])
def test_a_time_between_looks_that_cannot_be_is_refused(words):
    with pytest.raises(ValueError):
        sample_seconds(words)


def test_each_look_is_sent_once_and_the_portal_says_when_the_next_may_come(senses):
    sampler, bodies = sampled(senses), []

    async def answer(request):
        bodies.append(json.loads(request.content))
        return httpx.Response(200, json=encode(TelemetryResponse(30)))

    async def scenario():
        client = PortalClient(PortalRoute(("http://portal",)), httpx.MockTransport(answer))
        telemetry = Telemetry("host-1", sampler, None)
        assert await telemetry.send(client, 0) == (0, 0.0)
        client.epoch = 4
        assert await telemetry.send(client, 0) == (1, 30.0)
        assert await telemetry.send(client, 1) == (1, 0.0)
        sampler.sample(senses)
        assert await telemetry.send(client, 1) == (2, 30.0)
        await client.close()

    asyncio.run(scenario())
    assert [body["epoch"] for body in bodies] == [4, 4]
    assert bodies[0]["samples"][0]["power_mw"] == 1_000


@pytest.mark.parametrize(
    ("refusal", "pause"),
    [
        (ContractError(ContractErrorCode.TOO_FREQUENT, "wait", "", {"retry_seconds": 7}), 7.0),
        (ContractError(ContractErrorCode.TOKEN_INVALID, "say hello"), 0.0),
        (ContractError(ContractErrorCode.UNAVAILABLE, "later"), 0.0),
    ],
)
def test_a_look_that_was_not_taken_is_not_sent_again(senses, refusal, pause):
    async def scenario():
        def answer(request):
            return httpx.Response(refusal.status, json=refusal.body())

        client = PortalClient(PortalRoute(("http://portal",)), httpx.MockTransport(answer))
        client.epoch = 1
        telemetry = Telemetry("host-1", sampled(senses), None)
        assert await telemetry.send(client, 0) == (1, pause)
        await client.close()

    asyncio.run(scenario())
