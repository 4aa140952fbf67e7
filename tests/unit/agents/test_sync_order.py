"""Several sync calls are open at once, so their answers may arrive in any order; a document that
was overtaken by a newer one does not come back, one of a restored portal does."""

import asyncio
import json
import threading
import time
from collections import Counter
from functools import partial

import httpx
import pytest

from agents.contract.calls import HelloResponse, SyncResponse
from agents.contract.codec import decode, encode
from agents.contract.documents import DesiredDocument, ObservedDocument
from agents.contract.errors import ContractError, ContractErrorCode
from agents.portal.client import PortalClient
from agents.portal.sync import (
    MAX_PAUSE_SECONDS,
    MIN_PAUSE_SECONDS,
    PAUSE_GROWTH,
    PortalSession,
    enrol,
    renewal_seconds,
    retry_pauses,
)
from agents.route.portal_route import PortalRoute
from agents.state.identity import AgentIdentity
from tests.unit.agents.documents import an_observed

WHEN = "2026-01-01T00:00:00Z"


class Portal:
    """Answers hello; each sync call waits until the test says which revision answers it, or that
    it fails with a `httpx` error or a refusal. `documents`: whether each call brought the observed
    document. `skew_ms`: its clock minus that of the node; beyond a minute it refuses a hello.
    `token_seconds`: how long the token of the next hello lives."""

    def __init__(self):
        self.skew_ms = 0
        self.token_seconds = 600
        self.calls = asyncio.Queue()
        self.documents = []
        self.observed = {}
        self.hellos = 0

    async def answer(self, request):
        if request.url.path.endswith("hello"):
            self.hellos += 1
            now_ms = time.time_ns() // 1_000_000 + self.skew_ms
            if abs(now_ms - json.loads(request.content)["time_ms"]) > 60_000:
                extra = {"server_time_ms": now_ms}
                skewed = ContractError(
                    ContractErrorCode.CLOCK_SKEW, "set the clock", "time_ms", extra
                )
                return httpx.Response(skewed.status, json=skewed.body())
            hello = HelloResponse(self.hellos, "t", self.token_seconds, 60, 0, WHEN)
            return httpx.Response(200, json=encode(hello))
        said, revision = json.loads(request.content), asyncio.Future()
        self.documents.append(said["observed"] is not None)
        self.observed = said["observed"] or self.observed
        self.calls.put_nowait((said["applied_revision"], revision))
        try:
            desired = DesiredDocument(node="n-1", revision=await revision)
        except ContractError as refused:
            return httpx.Response(refused.status, json=refused.body())
        answer = SyncResponse(1, 0, 60, desired.revision, False, WHEN, desired)
        return httpx.Response(200, json=encode(answer))


def talk(machine, scenario, *, skew_ms=0, token_seconds=600):
    """Run the scenario beside a session of a node with a portal."""

    async def run_scenario():
        portal, node = Portal(), machine.agent()
        portal.skew_ms, portal.token_seconds = skew_ms, token_seconds
        client = PortalClient(PortalRoute(("http://portal",)), httpx.MockTransport(portal.answer))
        identity = AgentIdentity(machine.folder)
        identity.record_enrolment("n-1")
        session = PortalSession(client, identity, machine.journal, machine.runtime)
        session.node = node
        session.report(an_observed())
        talking = asyncio.create_task(session.run())
        async with asyncio.timeout(300):
            await scenario(portal, session)
        talking.cancel()
        await asyncio.gather(talking, return_exceptions=True)
        await client.close()

    asyncio.run(run_scenario())


def test_an_answer_that_was_overtaken_does_not_take_the_node_back(machine):
    async def scenario(portal, session):
        applied, slow = await portal.calls.get()
        assert applied == 0
        session.report(an_observed(boot_id="b-2"))
        _, quick = await portal.calls.get()
        quick.set_result(5)
        slow.set_result(4)
        assert (await portal.calls.get())[0] == 5

    talk(machine, scenario)
    assert machine.journal.desired().revision == 5


def test_a_late_answer_with_a_newer_document_is_accepted(machine):
    async def scenario(portal, session):
        _, slow = await portal.calls.get()
        session.report(an_observed(boot_id="b-2"))
        _, quick = await portal.calls.get()
        is_accepted = asyncio.Event()
        session.node.renew_lease = lambda _: is_accepted.set()
        quick.set_result(5)
        await is_accepted.wait()
        slow.set_result(7)
        assert (await portal.calls.get())[0] == 7

    talk(machine, scenario)
    assert machine.journal.desired().revision == 7


def test_a_restored_portal_may_go_back(machine):
    async def scenario(portal, _):
        for applied, answered in ((0, 5), (5, 2), (2, 3)):
            said, revision = await portal.calls.get()
            assert said == applied
            revision.set_result(answered)
        assert (await portal.calls.get())[0] == 3

    talk(machine, scenario)
    assert machine.journal.desired().revision == 3


def test_after_a_failed_call_the_portal_gets_the_whole_document_again(machine):
    """Nobody knows what of the failed call has arrived."""

    async def scenario(portal, session):
        (await portal.calls.get())[1].set_result(1)
        (await portal.calls.get())[1].set_exception(httpx.ReadError("the connection broke"))
        await portal.calls.get()
        assert portal.documents == [True, False, True]
        session.report(an_observed(boot_id="b-2"))
        _, overtaking = await portal.calls.get()
        overtaking.set_exception(httpx.ReadError("the connection broke"))
        await portal.calls.get()
        assert portal.documents[3:] == [True, True]

    talk(machine, scenario)


@pytest.mark.parametrize("skew_ms", [3_600_000, -3_600_000])
def test_after_a_refusal_for_its_clock_a_node_says_hello_by_the_clock_of_the_portal(
    machine, skew_ms
):
    async def scenario(portal, _):
        await portal.calls.get()
        assert portal.hellos == 2

    talk(machine, scenario, skew_ms=skew_ms)


def test_a_token_is_renewed_while_it_lives_though_a_call_is_kept_open(machine):
    """Nothing is refused: the next session begins with the whole document."""

    async def scenario(portal, _):
        await portal.calls.get()
        portal.token_seconds = 600
        await portal.calls.get()
        assert (portal.hellos, portal.documents) == (2, [True, True])

    talk(machine, scenario, token_seconds=1)


def test_a_session_that_ends_waits_for_the_document_that_is_being_accepted(machine):
    """Otherwise that one could overtake a newer one of the next session."""

    async def scenario(portal, session):
        begun, may_end, accept = asyncio.Event(), threading.Event(), session.node.accept
        loop = asyncio.get_running_loop()

        def slow_accept(desired):
            loop.call_soon_threadsafe(begun.set)
            may_end.wait()
            return accept(desired)

        session.node.accept = slow_accept
        _, first = await portal.calls.get()
        session.report(an_observed(boot_id="b-2"))
        _, second = await portal.calls.get()
        first.set_result(5)
        await begun.wait()
        second.set_exception(httpx.ReadError("the connection broke"))
        try:
            for _ in range(100):
                await asyncio.sleep(0.01)
                assert portal.hellos == 1
        finally:
            may_end.set()
        assert (await portal.calls.get())[0] == 5

    talk(machine, scenario)


def test_agents_that_began_together_renew_at_different_times():
    seconds = [renewal_seconds(900) for _ in range(200)]
    assert 540 <= min(seconds) < 600 < 750 < max(seconds) <= 810


def test_a_portal_that_wants_fewer_calls_gets_no_hello_but_the_same_report_later(
    machine, monkeypatch
):
    monkeypatch.setattr("agents.portal.sync.MAX_RETRY_SECONDS", 0.0)

    async def scenario(portal, _):
        refusal = ContractError(
            ContractErrorCode.TOO_FREQUENT, "too many calls", "", {"retry_seconds": 7}
        )
        (await portal.calls.get())[1].set_exception(refusal)
        (await portal.calls.get())[1].set_result(3)
        await portal.calls.get()
        assert (portal.hellos, portal.documents) == (1, [True, True, False])

    talk(machine, scenario)


def test_a_portal_that_does_not_know_pulls_gets_the_report_without_them(machine):
    """The codec of every portal refuses a field that it does not know, and names it. In the next
    session it may be a newer one."""

    async def scenario(portal, session):
        _, answer = await portal.calls.get()
        assert pulls_of(portal) == [3]
        answer.set_exception(refusal_of(portal, "pull", *portal.observed["replicas"]))
        _, answer = await portal.calls.get()
        assert pulls_of(portal) == []
        assert portal.hellos == 1
        answer.set_exception(ContractError(ContractErrorCode.EPOCH_STALE, "say hello again"))
        while portal.hellos == 1:
            await portal.calls.get()
        assert pulls_of(portal) == [3]

    talk(machine, scenario)


def test_a_portal_that_knows_no_overlays_is_told_of_none_and_gives_the_node_no_gang_with_others(
    machine,
):
    """It has neither a network for them, nor anything else that a newer agent reports."""

    async def scenario(portal, session):
        told = an_observed().facts
        assert told.overlay
        for name in ("address", "overlay", "rank_network"):
            _, answer = await portal.calls.get()
            answer.set_exception(refusal_of(portal, name, portal.observed["facts"]))
        await portal.calls.get()
        facts = portal.observed["facts"]
        assert not {"address", "overlay", "rank_network"} & facts.keys()
        assert facts["fabric"] == "alone:n-1"
        assert facts["problems"] == list(told.problems)
        assert portal.hellos == 1

    talk(machine, scenario)


def test_a_field_without_which_there_is_no_report_is_no_reason_to_repeat_it(machine):
    async def scenario(portal, session):
        _, answer = await portal.calls.get()
        answer.set_exception(refusal_of(portal, "cpu_milli", portal.observed["facts"]))
        await portal.calls.get()
        assert portal.hellos == 2

    talk(machine, scenario)


def refusal_of(portal, name, *holders):
    """Of the last report, by the codec of a portal that does not know this field of these."""
    for holder in holders:
        if name in holder:
            holder[f"{name}_of_tomorrow"] = holder.pop(name)
    with pytest.raises(ContractError) as refused:
        decode(ObservedDocument, portal.observed, "observed.")
    refused.value.field = refused.value.field.removesuffix("_of_tomorrow")
    return refused.value


def pulls_of(portal):
    """The layers that there are of each pull in the last report."""
    return [r["pull"]["layers_done"] for r in portal.observed["replicas"] if "pull" in r]


def test_an_enrolment_that_comes_too_soon_is_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr("agents.portal.sync.MAX_RETRY_SECONDS", 0.0)
    refused = ContractError(ContractErrorCode.TOO_FREQUENT, "wait", "", {"retry_seconds": 9})
    wrong = ContractError(ContractErrorCode.JOIN_TOKEN_INVALID, "wrong", "join_token")
    answers = iter(
        (
            httpx.Response(429, json=refused.body()),
            httpx.Response(200, json={"node_id": "n-1"}),
            httpx.Response(401, json=wrong.body()),
        )
    )
    transport = httpx.MockTransport(lambda _: next(answers))
    client = PortalClient(PortalRoute(("http://portal",)), transport)
    identity, other = AgentIdentity(tmp_path / "one"), AgentIdentity(tmp_path / "two")
    asyncio.run(enrol(client, identity, "gpu-1", "ticket"))
    assert identity.node_id == "n-1"
    with pytest.raises(ContractError, match="join_token_invalid"):
        asyncio.run(enrol(client, other, "gpu-1", "ticket"))


def test_pauses_between_attempts_grow_up_to_a_limit_each_with_its_own_jitter():
    async def pauses(count):
        every = retry_pauses()
        return [await anext(every) for _ in range(count)]

    nominal = MIN_PAUSE_SECONDS
    for pause in asyncio.run(pauses(30)):
        assert 0.5 * nominal <= pause <= 1.5 * nominal
        nominal = min(nominal * PAUSE_GROWTH, MAX_PAUSE_SECONDS)


def calls_of_agents(outage, agents=1_000):
    """When agents whose portal is away call it, and when each comes back to it: seconds since the
    portal went, all at once for all. No clock but theirs."""

    async def lives():
        failed, back = [], []
        for _ in range(agents):
            calls = [0.0]
            pauses = retry_pauses(partial(max, calls))
            while calls[-1] < outage:
                calls.append(calls[-1] + await anext(pauses))
            failed += calls[:-1]
            back.append(calls[-1])
        return failed, back

    return asyncio.run(lives())


@pytest.mark.parametrize("outage", [0.5, 4, 7, 30, 600])
def test_agents_come_back_soon_after_their_portal_and_not_all_at_once(outage):
    """A web process that was killed serves again after 4 to 7 s: then there is time to take all
    thousand nodes back within 30 s."""
    failed, back = calls_of_agents(outage)
    most = sorted(back)[: len(back) * 9 // 10]
    assert most[-1] - outage < min(0.75 * outage + 0.3, 1.5 * MAX_PAUSE_SECONDS)
    assert max(back) - outage <= min(1.5 * outage + 0.3, 1.5 * MAX_PAUSE_SECONDS)
    # As they come: those of one second, while the portal takes all of them back.
    if outage >= 7:
        assert max(Counter(map(int, back)).values()) < len(back) / 2
    # What a proxy whose portal is away has to refuse.
    late = Counter(int(at) for at in failed if at > 30)
    assert max(late.values(), default=0) < 2 * len(back) / MAX_PAUSE_SECONDS
