"""A job waits for a limit: its owner asks in one click, an admin sees the effect and answers."""

import re
from html import unescape

import pytest

from portal.accounts.models import Role
from portal.audit.models import AuditEntry
from portal.errors import Refused
from portal.jobs.models import Job
from portal.jobs.services import job_cancel
from portal.quotas.models import LimitRequest, Quota
from portal.quotas.services import quota_set
from portal.submission.limit_requests import limit_request_decide, limit_request_make
from scheduler.core.model.states import JobStatus
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)

GPU = 56_000
WHOLE = {"device": {"gpus": 1}}


@pytest.fixture
def olga():
    return a_user("olga")


@pytest.fixture
def root():
    return a_user("root", is_superuser=True, is_staff=True)


@pytest.fixture
def node():
    return a_node("n1", gpus=2)


@pytest.fixture
def team(olga):
    return a_project("vision", olga, gpus=1)


@pytest.fixture
def waits(olga, team, node):
    """The quota of one GPU is full, and a GPU is free."""
    a_job(olga, team, name="first", **WHOLE)
    job = a_job(olga, team, name="next", **WHOLE)
    settle(node)
    job.refresh_from_db()
    assert job.reason["code"] == "quota_project"
    return job


@pytest.fixture
def as_user(client):
    def as_user(user):
        client.force_login(user)
        return client

    return as_user


def text_of(answer):
    assert answer.status_code == 200
    return unescape(answer.content.decode())


def test_from_the_wait_to_the_started_job_by_one_click_of_each(as_user, olga, root, waits, node):
    page = as_user(olga).get(f"/jobs/{waits.label}/")
    assert 'form="ask-admin"' in text_of(page)
    as_user(olga).post(f"/jobs/{waits.label}/limit-request", {"note": "deadline on Friday"})
    assert "Request sent to an admin" in text_of(as_user(olga).get(f"/jobs/{waits.label}/"))
    row = LimitRequest.objects.get()
    assert (row.limit_units, row.user, row.code) == (2 * GPU, None, "quota_project")

    shown = text_of(as_user(root).get("/limit-requests/"))
    assert "olga asks for a limit of 2 GPUs in vision" in shown
    assert "1 GPU now, 2 GPU if granted; 1 GPU held" in shown
    assert "together 2 of 2 GPU" in shown
    assert "deadline on Friday" in shown
    assert "1 request for a higher limit" in text_of(as_user(root).get("/console/"))
    as_user(root).post("/limit-requests/", {"request": row.pk, "verdict": "grant"})

    assert Quota.objects.get(project=waits.project, user=None).limit_units == 2 * GPU
    settle(node)
    waits.refresh_from_db()
    assert waits.status == JobStatus.RUNNING
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert {"limit_request", "limit_grant", "quota_set"} <= actions
    assert "root granted the higher limit" in text_of(
        as_user(olga).get(f"/jobs/{waits.label}/events")
    )


def test_a_refusal_needs_a_reason_and_the_asker_reads_it(as_user, olga, root, waits):
    made = limit_request_make(job=waits, actor=olga)
    answer = as_user(root).post("/limit-requests/", {"request": made.pk, "verdict": "decline"})
    assert answer.status_code == 400
    assert "Give a reason" in unescape(answer.content.decode())
    as_user(root).post(
        "/limit-requests/", {"request": made.pk, "verdict": "decline", "answer": "not this week"}
    )
    page = text_of(as_user(olga).get(f"/jobs/{waits.label}/"))
    assert "root declined your last request: not this week" in page
    assert 'form="ask-admin"' in page, "and may be asked again"
    assert Quota.objects.get(project=waits.project, user=None).limit_units == GPU


def test_asking_twice_is_asking_once(olga, waits):
    first = limit_request_make(job=waits, actor=olga)
    assert limit_request_make(job=waits, actor=olga, note="again").pk == first.pk
    assert AuditEntry.objects.filter(action="limit_request").count() == 1


def test_over_rest_they_are_read_in_pages_oldest_first(as_user, olga, team, waits, root):
    first = limit_request_make(job=waits, actor=olga)
    more = [field.attname for field in LimitRequest._meta.fields if field.attname != "id"]
    copy = {name: getattr(first, name) for name in more}
    others = [a_job(olga, team, name=f"later-{n}", **WHOLE) for n in range(2)]
    rows = [LimitRequest.objects.create(**copy | {"job_id": job.pk}) for job in others]
    api = as_user(root)
    page = api.get("/api/v1/limit-requests?page_size=2").json()
    assert [row["id"] for row in page["results"]] == [first.pk, rows[0].pk]
    rest = api.get(page["next"]).json()
    assert [row["id"] for row in rest["results"]] == [rows[1].pk]
    assert rest["next"] is None


def test_a_members_own_quota_is_decided_by_the_admin_of_the_project(
    as_user, olga, team, node, root
):
    ada = a_user("ada")
    team.memberships.create(user=ada, role=Role.ADMIN)
    quota_set(project=team, limit_units=2 * GPU, actor="root")
    quota_set(project=team, user=olga, limit_units=GPU, actor="ada")
    a_job(olga, team, name="first", **WHOLE)
    job = a_job(olga, team, name="next", **WHOLE)
    settle(node)
    job.refresh_from_db()
    assert job.reason["code"] == "quota_user"
    made = limit_request_make(job=job, actor=olga)
    assert "olga, vision" in text_of(as_user(ada).get("/limit-requests/"))
    limit_request_decide(request_id=made.pk, actor=ada, grant=True)
    assert Quota.objects.get(project=team, user=olga).limit_units == 2 * GPU


def test_the_effect_is_shown_for_a_limit_of_nothing_and_for_a_job_that_waits_no_more(
    as_user, olga, team, node, root
):
    robots = a_project("robots", olga, gpus=1)
    quota_set(project=robots, limit_units=GPU, lend_units=GPU, actor="root")
    quota_set(project=team, limit_units=0, borrow_units=GPU, actor="root")
    a_job(olga, robots, **WHOLE)
    settle(node)
    job = a_job(olga, team, **WHOLE)
    settle(node)
    job.refresh_from_db()
    assert job.reason["code"] == "quota_project"
    limit_request_make(job=job, actor=olga)
    assert "0 GPU now, 1 GPU if granted; 0 GPU held" in text_of(
        as_user(root).get("/limit-requests/")
    )
    job_cancel(job=job, actor="olga")
    assert "The job no longer waits." in text_of(as_user(root).get("/limit-requests/"))


def test_an_admin_of_the_project_neither_sees_nor_decides_what_the_platform_gives(
    as_user, olga, team, waits
):
    ada = a_user("ada")
    team.memberships.create(user=ada, role=Role.ADMIN)
    made = limit_request_make(job=waits, actor=olga)
    assert "No requests for higher limits" in text_of(as_user(ada).get("/limit-requests/"))
    with pytest.raises(Refused) as refused:
        limit_request_decide(request_id=made.pk, actor=ada, grant=True)
    assert refused.value.code == "not_found"


def test_only_the_owner_asks_and_only_while_a_limit_is_in_the_way(olga, team, waits):
    otto = a_user("otto")
    team.memberships.create(user=otto, role=Role.MEMBER)
    with pytest.raises(Refused) as refused:
        limit_request_make(job=waits, actor=otto)
    assert refused.value.code == "forbidden"
    running = Job.objects.get(name="first")
    with pytest.raises(Refused) as refused:
        limit_request_make(job=running, actor=olga)
    assert refused.value.code == "not_waiting"


def test_a_decided_request_is_not_decided_again(olga, root, waits):
    made = limit_request_make(job=waits, actor=olga)
    limit_request_decide(request_id=made.pk, actor=root, grant=False, answer="no")
    with pytest.raises(Refused) as refused:
        limit_request_decide(request_id=made.pk, actor=root, grant=True)
    assert refused.value.code == "not_awaiting"
    assert Quota.objects.get(project=waits.project, user=None).limit_units == GPU


def test_a_grant_never_lowers_what_was_raised_by_more_meanwhile(olga, root, waits):
    made = limit_request_make(job=waits, actor=olga)
    quota_set(project=waits.project, limit_units=8 * GPU, actor="root")
    limit_request_decide(request_id=made.pk, actor=root, grant=True)
    assert Quota.objects.get(project=waits.project, user=None).limit_units == 8 * GPU


def test_more_than_the_cluster_has_is_said_before_it_is_granted(as_user, olga, root, waits):
    a_project("robots", gpus=8)
    limit_request_make(job=waits, actor=olga)
    shown = text_of(as_user(root).get("/limit-requests/"))
    assert "together 10 of 2 GPU" in shown
    assert re.search(r"Not every project could have all of its quota at once", shown)
