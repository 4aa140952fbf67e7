"""How many SQL statements the whole life of one job takes, from its submit to its freed GPU.

Over REST and the agents' wire, with every task run where it is rung. Production runs fewer: rings
that come together start one task. Lower the budget with each change that needs less.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace

import pytest
from django.core.cache import cache
from django.db.backends.utils import CursorWrapper

from agents.contract.calls import SYNC_PATH
from agents.contract.documents import (
    DesiredDocument,
    NodeFacts,
    ObservedGpu,
    ObservedReplica,
    ReplicaState,
    read_desired,
)
from portal.accounts.models import ApiToken, TokenScope
from portal.allocations.models import Allocation
from portal.inventory.models import SlotClaim
from portal.jobs.models import Job
from tests.support.agent_calls import an_agent, run
from tests.support.rows import a_project, a_request, a_user

pytestmark = pytest.mark.django_db(transaction=True)

# 145 measured, and two reads of what a process keeps for a time. Words that begin and end
# transactions do not count.
BUDGET = 149
STEPS = ("submit", "fetch", "running", "log", "exited", "gone")
TRANSACTION_WORDS = {"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE"}


class Statements:
    """Counts those of all threads, by step."""

    def __init__(self, monkeypatch) -> None:
        self.step = ""
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        for name in ("execute", "executemany"):
            monkeypatch.setattr(CursorWrapper, name, self._counting(getattr(CursorWrapper, name)))

    def _counting(self, execute):
        def counting(cursor, sql, params=None):
            if str(sql).split(maxsplit=1)[0].upper() not in TRANSACTION_WORDS:
                with self._lock:
                    self.counts[self.step] += 1
            return execute(cursor, sql, params)

        return counting


class Reporter:
    """An agent with one GPU whose replica goes from step to step."""

    def __init__(self) -> None:
        self.agent = an_agent()
        gpu = ObservedGpu(
            uuid="GPU-1", board="H200-141GB", product_name="NVIDIA H200", memory_mib=143_771
        )
        facts = NodeFacts(cpu_milli=64_000, memory_mib=524_288, fabric="f")
        self.idle = self.agent.observed(gpus=(gpu,), facts=facts)
        self.desired = DesiredDocument(node=self.idle.node)

    async def begin(self, client) -> None:
        await self.agent.hello(client)
        await self.report(client)

    async def fetch(self, client) -> None:
        """The answer to a call without a report."""
        await self._sync(client, self.idle, observed=None)

    async def report(self, client, *replicas) -> None:
        await self._sync(client, replace(self.idle, replicas=replicas))

    async def _sync(self, client, seen, **fields) -> None:
        body = self.agent.sync_body(seen, applied_revision=self.desired.revision) | fields
        answer = await client.post(SYNC_PATH, json=body, headers=self.agent.headers)
        assert answer.status_code == 200, answer.text
        if desired := answer.json()["desired"]:
            self.desired = read_desired(desired)


def test_the_whole_life_of_a_job_stays_within_its_budget_of_statements(monkeypatch):
    cache.clear()
    olga = a_user("olga")
    body = a_request(a_project("vision", olga), device={"gpus": 1})
    _, token = ApiToken.objects.create(user=olga, name="t", scope=TokenScope.WRITE)
    node, statements = Reporter(), Statements(monkeypatch)

    async def scenario(client):
        await node.begin(client)

        statements.step = "submit"
        headers = {"Authorization": f"Token {token}", "Host": "127.0.0.1"}
        answer = await client.post("/api/v1/jobs", json=body, headers=headers)
        assert answer.status_code == 201, answer.text

        statements.step = "fetch"
        await node.fetch(client)
        (wanted,) = node.desired.replicas
        seen = ObservedReplica(wanted.id, wanted.job, fence=wanted.fence)

        statements.step = "running"
        await node.report(client, replace(seen, state=ReplicaState.RUNNING))

        statements.step = "log"
        answer = await node.agent.log(client, wanted.id, 0, b"started\n")
        assert answer.status_code == 200, answer.text

        statements.step = "exited"
        await node.report(client, replace(seen, state=ReplicaState.EXITED, exit_code=0))
        assert not node.desired.replicas, "the portal wants it gone"

        statements.step = "gone"
        await node.report(client)

    run(scenario)
    assert Job.objects.get().status == "succeeded"
    assert Allocation.objects.get().status == "released"
    assert not SlotClaim.objects.exists()
    by_step = {step: statements.counts[step] for step in STEPS}
    assert all(by_step.values()), "every step was counted"
    assert sum(by_step.values()) <= BUDGET, by_step
