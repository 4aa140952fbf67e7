"""The approvals inbox: who decides sees who asks for what, and each decision is audited."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from portal.accounts.models import Membership, Role
from portal.accounts.services import project_share_set
from portal.arrays.selectors import members_of
from portal.audit.models import AuditEntry, Event
from portal.jobs.models import Job
from portal.quotas.budgets import budget_add
from portal.submission.approvals import (
    approval_requests,
    approvals_decide,
    jobs_to_approve,
    starts_if_approved,
)
from portal.submission.arrays import request_submit
from portal.web.wording.labels import NBSP
from scheduler.core.model.states import JobStatus
from scheduler.core.request import parse_request
from tests.support.rows import LIMITS, a_job, a_node, a_project, a_request, a_user
from tests.support.times import ago, ahead

pytestmark = pytest.mark.django_db
HOUR_OF_A_GPU = 56_000 * 3_600


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    project = a_project("vision", alice, gpus=2)
    project_share_set(project=project, actor="root", approval_units=0)
    return project


@pytest.fixture
def ada(vision):
    ada = a_user("ada")
    Membership.objects.create(project=vision, user=ada, role=Role.ADMIN)
    return ada


def as_(user) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_the_inbox_shows_who_asks_for_what_and_what_it_takes_of_quota_and_budget(
    alice, vision, ada
):
    start, end = ago(hours=1), ahead(hours=23)
    budget_add(
        project=vision,
        limit_unit_seconds=10 * HOUR_OF_A_GPU,
        starts_at=start,
        ends_at=end,
        actor="root",
    )
    a_node(gpus=2)
    a_job(alice, vision, name="large", device={"gpus": 2}, time_limit="6h")
    page = as_(ada).get("/approvals/").content.decode()
    assert "1 job waits for your approval" in page
    assert "alice" in page and "large" in page
    assert "Jobs with more than 0 GPUs need approval by an admin of vision" in page
    assert "12 GPU-hours" in page
    assert "quota: 0 → 2 of 2 GPUs" in page
    assert "budget: 0 → 12 of 10 GPU-hours" in page
    assert "no estimate yet" in page, "the budget keeps it, whoever approves it"


def test_what_is_over_a_limit_is_marked(alice, vision, ada):
    a_node(gpus=2)
    job = a_job(alice, vision, device={"gpus": 2})
    (one,) = approval_requests([job])
    assert [(a.before, a.after, a.is_exceeded) for a in one.limits] == [(0, 112_000, False)]
    vision.quotas.update(limit_units=56_000)
    (one,) = approval_requests([job])
    assert one.limits[0].is_exceeded


def test_one_is_approved_by_its_own_button_and_the_other_goes_on_waiting(alice, vision, ada):
    a_node()
    one, two = a_job(alice, vision), a_job(alice, vision)
    body = {"verdict": f"approve:{one.label}", "job": [two.label], "reason": "go ahead"}
    assert as_(ada).post("/approvals/", body).status_code == 302
    one.refresh_from_db()
    two.refresh_from_db()
    assert (one.status, two.status) == (JobStatus.QUEUED, JobStatus.AWAITING_APPROVAL)
    line = AuditEntry.objects.get(action="job_approve")
    assert (line.actor, line.noun_id, line.after["because"]) == ("ada", one.label, "go ahead")
    event = Event.objects.get(job=one, code="approved")
    assert event.sentence == "approved by ada: go ahead"


def test_the_chosen_are_refused_together_with_one_reason(alice, vision, ada):
    a_node()
    jobs = [a_job(alice, vision) for _ in range(3)]
    labels = [job.label for job in jobs[:2]]
    answer = as_(ada).post(
        "/approvals/", {"verdict": "refuse", "job": labels, "reason": "not now"}, follow=True
    )
    assert f"Refused: {labels[0]}, {labels[1]}" in answer.content.decode()
    assert list(Job.objects.order_by("pk").values_list("status", flat=True)) == [
        JobStatus.CANCELLED,
        JobStatus.CANCELLED,
        JobStatus.AWAITING_APPROVAL,
    ]
    told = AuditEntry.objects.filter(action="job_refuse").values_list("after__because", flat=True)
    assert list(told) == ["not now", "not now"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"verdict": "refuse"}, "Choose at least one job"),
        ({"verdict": "refuse", "job": ["J"]}, "Give a reason: the job&#x27;s owner will read it"),
        ({"verdict": "sell"}, "Choose approve or refuse"),
    ],
    ids=["nothing", "no reason", "no verdict"],
)
def test_a_decision_that_is_not_whole_keeps_the_inbox_and_says_what_to_do(
    alice, vision, ada, body, says
):
    a_node()
    job = a_job(alice, vision)
    body = body | ({"job": [job.label]} if "job" in body else {})
    answer = as_(ada).post("/approvals/", body)
    assert answer.status_code == 400
    assert says in answer.content.decode()
    job.refresh_from_db()
    assert job.status == JobStatus.AWAITING_APPROVAL


def test_one_that_was_decided_meanwhile_does_not_keep_the_others(alice, vision, ada):
    a_node()
    one, two = a_job(alice, vision), a_job(alice, vision)
    refs = [one.label, two.label, "J-999"]
    approvals_decide(refs=[one.label], actor=ada, approve=True, reason="")
    decided = dict(approvals_decide(refs=refs, actor=ada, approve=True, reason=""))
    assert decided[two.label] is None
    assert decided[one.label].code == "not_awaiting"
    assert decided["J-999"].status == 404


def an_array(alice, vision, array="0-9%4"):
    device = {"gpus": 1}
    body = a_request(vision, array=array, command=["echo", "{index}"], device=device)
    return request_submit(user=alice, request=parse_request(body, LIMITS)).array


def test_an_array_is_one_row_and_approved_as_a_whole(alice, vision, ada):
    a_node(gpus=8)
    single, array = a_job(alice, vision), an_array(alice, vision)
    page = as_(ada).get("/approvals/").content.decode().replace(NBSP, " ")
    assert "11 jobs wait for your approval" in page and "10 members" in page
    assert "each 1 GPU for 1 h at most, 4 at once" in page and "10 GPU-hours" in page
    assert page.count('name="job"') == 2 and f"approve:{array.label}" in page
    one = as_(ada).get(f"/approvals/{array.label}/").content.decode().replace(NBSP, " ")
    assert "each 1 GPU for 1 h at most, 4 at once" in one and f"approve:{array.label}" in one
    refs = [array.label, single.label]
    with CaptureQueriesContext(connection) as few:
        decided = approvals_decide(refs=refs, actor=ada, approve=True, reason="go ahead")
    assert decided == [(array.label, None), (single.label, None)]
    assert set(members_of(array).values_list("status", "reason")) == {("queued", None)}
    line = AuditEntry.objects.get(noun="array")
    assert (line.noun_id, line.after["members"]) == (array.label, 10)
    assert line.after["because"] == "go ahead"
    assert Event.objects.filter(code="approved").count() == 11
    ((_, again),) = approvals_decide(refs=[array.label], actor=ada, approve=True, reason="")
    assert again.code == "not_awaiting"
    larger = an_array(alice, vision, "0-99%4")
    with CaptureQueriesContext(connection) as many:
        approvals_decide(refs=[larger.label], actor=ada, approve=False, reason="not now")
    assert len(many) <= len(few)
    ends = set(members_of(larger).values_list("status", "stop_reason"))
    assert ends == {("cancelled", "refused")}


def test_nobody_decides_on_an_array_of_another_project(alice, vision, ada):
    a_node()
    array = an_array(alice, vision)
    eve = a_user("eve")
    a_project("speech", eve)
    Membership.objects.filter(user=eve).update(role=Role.ADMIN)
    for user, code in ((eve, "not_found"), (alice, "forbidden")):
        ((_, refused),) = approvals_decide(refs=[array.label], actor=user, approve=True, reason="")
        assert refused.code == code
    assert as_(eve).get(f"/approvals/{array.label}/").status_code == 404


def test_an_admin_of_another_project_sees_and_decides_nothing_here(alice, vision, ada):
    a_node()
    job = a_job(alice, vision)
    eve = a_user("eve")
    a_project("other", eve, role=Role.ADMIN)
    page = as_(eve).get("/approvals/")
    assert "Nothing waits for your approval" in page.content.decode()
    assert as_(eve).get(f"/approvals/{job.label}/").status_code == 404
    body = {"verdict": f"approve:{job.label}"}
    answer = as_(eve).post("/approvals/", body, follow=True).content.decode()
    assert "This job does not exist, or you may not see it" in answer
    job.refresh_from_db()
    assert job.status == JobStatus.AWAITING_APPROVAL


def test_for_a_member_there_is_no_inbox(alice, vision):
    assert as_(alice).get("/approvals/").status_code == 404
    assert not jobs_to_approve(alice).exists()


def test_a_platform_admin_decides_about_every_project(alice, vision):
    a_node()
    job = a_job(alice, vision)
    root = as_(a_user("root", is_superuser=True, is_staff=True))
    assert job.label in root.get("/approvals/").content.decode()
    root.post("/approvals/", {"verdict": f"approve:{job.label}"})
    job.refresh_from_db()
    assert job.status == JobStatus.QUEUED


def test_the_page_of_one_draws_what_would_be_carved_for_it(alice, vision, ada):
    node = a_node()
    job = a_job(alice, vision)
    page = as_(ada).get(f"/approvals/{job.label}/").content.decode()
    assert f"{node.row.name} GPU 0" in page
    assert 'class="plan still"' in page and "2g.35gb" in page
    job.refresh_from_db()
    assert job.status == JobStatus.AWAITING_APPROVAL


def test_the_planner_says_when_each_would_start_if_all_were_approved(alice, vision):
    a_node()
    first = a_job(alice, vision, device={"gpus": 1})
    second = a_job(alice, vision, device={"gpus": 1})
    starts = starts_if_approved([first, second])
    assert starts[first.pk].at_once
    assert not starts[second.pk].at_once
    assert starts[second.pk].reason["code"]
    assert Job.objects.filter(status=JobStatus.AWAITING_APPROVAL).count() == 2


def test_an_empty_inbox_says_what_would_come_here(ada):
    page = as_(ada).get("/approvals/").content.decode()
    assert "No pending approvals" in page


def test_a_name_with_markup_stays_inert(alice, vision, ada):
    a_node()
    job = a_job(alice, vision)
    Job.objects.filter(pk=job.pk).update(name="<script>x</script>")
    page = as_(ada).get("/approvals/").content.decode()
    assert "<script>x" not in page and "&lt;script&gt;x" in page


def test_the_inbox_costs_the_same_for_one_job_and_for_ten(
    alice, vision, ada, django_assert_num_queries
):
    a_node()
    a_job(alice, vision)
    client = as_(ada)
    client.get("/approvals/")
    with CaptureQueriesContext(connection) as one:
        client.get("/approvals/")
        cost = len(one)
    for _ in range(9):
        a_job(alice, vision)
    client.get("/approvals/")
    with django_assert_num_queries(cost):
        client.get("/approvals/")
