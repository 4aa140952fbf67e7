"""A GPU that another node holds is never moved by a report (finding 2.1); an admin decides."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from agents.contract.documents import ObservedGpu
from agents.contract.errors import ContractError
from agents.contract.telemetry import GpuSample, TelemetryRequest
from portal.agentapi.node_report import node_report
from portal.agentapi.telemetry import telemetry_accept
from portal.allocations.disputes import disputed_claim_accept, disputed_claim_dismiss
from portal.allocations.models import Allocation
from portal.allocations.retirement import node_retire
from portal.audit.models import AuditEntry, Event
from portal.errors import Refused
from portal.inventory.credentials import digest_of, new_access_token
from portal.inventory.models import DisputedClaim, Gpu, LatestSample, Node, Slice
from portal.inventory.revocation import node_revoke
from portal.inventory.selectors import disputed_claims
from scheduler.core.model.states import NodeStatus, SliceStatus
from tests.support.agent_calls import an_agent
from tests.support.rows import HonestNode, a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db


class Thief(HonestNode):
    """Reports the GPUs of another node as its own."""

    stolen: tuple[str, ...] = ()

    def uuid(self, index):
        return self.stolen[index]


def a_thief(*uuids: str, name: str = "evil") -> Thief:
    thief = Thief(Node.objects.create(name=name, status=NodeStatus.ONLINE), gpus=len(uuids))
    thief.stolen = uuids
    return thief


def everything():
    """All rows that a theft could touch."""
    return [list(model.objects.order_by("pk").values()) for model in (Gpu, Slice, Allocation)]


def test_finding_2_1_a_report_does_not_take_the_gpus_of_another_node():
    alice, victim = a_user("alice"), a_node("victim", gpus=2)
    job = a_job(alice, a_project("vision", alice))
    settle(victim)
    job.refresh_from_db()
    assert job.status == "running"
    before = everything()
    thief = a_thief(victim.uuid(0), victim.uuid(1))
    for _ in range(3):
        thief.report()
        victim.report()
    assert everything() == before
    assert not Gpu.objects.filter(node=thief.row).exists()
    # Once for each GPU, however often it is repeated.
    claims = DisputedClaim.objects.undecided()
    assert {(c.gpu.uuid, c.claimant.name) for c in claims} == {
        (victim.uuid(0), "evil"),
        (victim.uuid(1), "evil"),
    }
    assert AuditEntry.objects.filter(action="gpu_claim", actor="node:evil").count() == 2
    assert Event.objects.filter(code="gpu_claimed_twice", noun="node").count() == 2
    later = a_job(alice, job.project, device={"gpus": 1})
    settle(victim)
    later.refresh_from_db()
    assert {
        a.slice.gpu.node.name for a in Allocation.objects.select_related("slice__gpu__node")
    } == {"victim"}
    assert later.status == "running"


def test_a_claim_that_is_no_longer_made_is_withdrawn_and_counts_again_when_it_is():
    victim = a_node("victim")
    thief = a_thief(victim.uuid(0))
    thief.report()
    thief.gpus = 0
    thief.report()
    assert not DisputedClaim.objects.undecided().exists()
    thief.gpus = 1
    thief.report()
    assert DisputedClaim.objects.undecided().count() == 1
    assert AuditEntry.objects.filter(action="gpu_claim").count() == 1


def test_the_same_gpu_twice_in_one_report_is_refused():
    thief = a_thief("GPU-new", "GPU-new")
    with pytest.raises(ContractError, match="appears twice"):
        thief.report()
    assert not Gpu.objects.exists()


def test_a_card_of_a_retired_node_belongs_to_the_server_that_reports_it():
    old = a_node("old")
    new = a_thief(old.uuid(0), name="new")
    new.report()
    Node.objects.filter(pk=old.row.pk).update(status=NodeStatus.RETIRED)
    new.report()
    assert Gpu.objects.get().node.name == "new"
    assert not DisputedClaim.objects.exists()


def test_an_admin_moves_an_idle_gpu_and_its_slices_are_carved_anew():
    alice, old = a_user("alice"), a_node("old")
    a_job(alice, a_project("vision", alice))
    settle(old)
    new = a_thief(old.uuid(0), name="new")
    new.report()
    claim = DisputedClaim.objects.get()
    with pytest.raises(Refused, match="gpu_busy"):
        disputed_claim_accept(claim=claim, actor="root")
    old.finish()
    settle(old)
    disputed_claim_accept(claim=claim, actor="root")
    assert Gpu.objects.get().node.name == "new"
    assert not Slice.objects.exclude(status=SliceStatus.DELETED).exists()
    line = AuditEntry.objects.get(action="gpu_claim_accept")
    assert (line.actor, line.after) == ("root", {"holder": "old", "claimant": "new"})
    assert Node.objects.get(name="new").observed_hash == ""
    with pytest.raises(Refused, match="not_found"):
        disputed_claim_accept(claim=claim, actor="root")
    # If the card was in its machine after all, it disputes the new state of things.
    old.report()
    assert DisputedClaim.objects.get().claimant.name == "old"


def test_a_dismissed_claim_raises_no_alert_again():
    victim = a_node("victim")
    thief = a_thief(victim.uuid(0))
    thief.report()
    disputed_claim_dismiss(claim=DisputedClaim.objects.get(), actor="root")
    thief.report()
    assert not DisputedClaim.objects.undecided().exists()
    assert AuditEntry.objects.get(action="gpu_claim_dismiss").actor == "root"
    assert Gpu.objects.get().node == victim.row


@pytest.mark.parametrize("decide", [disputed_claim_accept, disputed_claim_dismiss])
def test_a_decision_is_refused_if_the_gpu_has_another_holder_by_now(decide):
    victim = a_node("victim")
    for name in ("first", "second"):
        a_thief(victim.uuid(0), name=name).report()
    seen = {claim.claimant.name: claim for claim in disputed_claims()}
    disputed_claim_accept(claim=seen["first"], actor="root")
    with pytest.raises(Refused, match="not_found"):
        decide(claim=seen["second"], actor="root")
    assert Gpu.objects.get().node.name == "first"
    assert DisputedClaim.objects.undecided().get().claimant.name == "second"


@pytest.mark.parametrize("end", [node_retire, node_revoke])
def test_the_claims_of_a_node_end_with_it(end):
    victim = a_node("victim")
    thief = a_thief(victim.uuid(0))
    thief.report()
    end(node=thief.row, actor="root")
    assert not DisputedClaim.objects.undecided().exists()
    assert Gpu.objects.get().node == victim.row


def test_the_samples_of_a_disputed_gpu_are_left_out_and_those_of_the_others_count():
    victim, agent = a_node("victim"), an_agent(name="new")
    gpus = (ObservedGpu("GPU-own", 0), ObservedGpu(victim.uuid(0), 1))
    node_report(agent.node.pk, agent.observed(gpus=gpus))
    token = new_access_token(agent.node.pk)
    expires_at = timezone.now() + timedelta(hours=1)
    columns = {"token_digest": digest_of(token), "token_expires_at": expires_at, "epoch": 1}
    Node.objects.filter(pk=agent.node.pk).update(**columns)
    samples = (GpuSample("GPU-own", power_mw=1), GpuSample(victim.uuid(0), power_mw=1))
    telemetry_accept(authorization=f"Agent {token}", request=TelemetryRequest(1, samples))
    assert [row.gpu.uuid for row in LatestSample.objects.all()] == ["GPU-own"]


def test_the_console_shows_it_and_decides_it():
    victim = a_node("victim")
    a_thief(victim.uuid(0)).report()
    client = Client()
    client.force_login(a_user("root", is_superuser=True, is_staff=True))
    assert "1 GPU is reported by two nodes" in client.get(reverse("web:console")).content.decode()
    page = client.get(reverse("web:disputes")).content.decode()
    assert victim.uuid(0) in page and "Move it to evil" in page
    claim = DisputedClaim.objects.get()
    answer = client.post(reverse("web:dispute", args=[claim.pk]), {"decision": "accept"})
    assert (answer.status_code, Gpu.objects.get().node.name) == (302, "evil")
    assert "No disputed GPU" in client.get(reverse("web:disputes")).content.decode()


def test_rest_lists_and_decides_it():
    victim = a_node("victim")
    a_thief(victim.uuid(0)).report()
    client = APIClient()
    client.force_authenticate(a_user("root", is_superuser=True))
    (row,) = client.get("/api/v1/disputed-claims").json()["results"]
    assert (row["gpu_uuid"], row["holder"], row["claimant"]) == (victim.uuid(0), "victim", "evil")
    for unknown in (row["id"] + 1, "evil", "9" * 5_000):
        assert client.post(f"/api/v1/disputed-claims/{unknown}/accept").status_code == 404
    assert client.post(f"/api/v1/disputed-claims/{row['id']}/accept").status_code == 204
    assert Gpu.objects.get().node.name == "evil"
