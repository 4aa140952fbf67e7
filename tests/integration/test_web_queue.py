"""The Queue page: everybody's waiting jobs in the order of the last pass, nobody's secrets."""

import re
from dataclasses import replace

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.accounts.models import Role
from portal.jobs.models import Job
from portal.quotas.policy import policy_set
from scheduler.tasks import plan_once
from tests.support.event_stream import first_event
from tests.support.many_jobs import many_jobs
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def secret():
    """A job of a project that olga is not in; it waits first."""
    eve = a_user("eve")
    return a_project("secret", eve), eve


@pytest.fixture
def full(olga, team, secret):
    """A node whose only GPU is taken: eve's job waits first, then olga's."""
    node = a_node("n1")
    a_job(olga, team, name="runs", device={"gpus": 1})
    settle(node)
    project, eve = secret
    a_job(eve, project, name="zebra", device={"gpus": 1})
    a_job(olga, team, name="alpha", device={"gpus": 1})
    settle(node)
    return node


@pytest.fixture
def page(client, olga):
    client.force_login(olga)

    def get(path="/queue/", **fields):
        answer = client.get(path, fields)
        assert answer.status_code == 200
        return answer.content.decode()

    return get


def lines(text: str) -> list[str]:
    """The rows of the queue, as words."""
    table = text.partition('data-part="queue"')[2].partition('data-part="frees-next"')[0]
    rows = re.findall(r"<tr(?: class=\"mine\")?><td.*?</tr>", table, re.S)
    return [" ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in rows]


def test_every_waiting_job_stands_in_the_order_of_the_planner(page, full):
    text = page()
    assert "2 jobs are waiting; your first is at position 2" in text
    assert "2 in order, 0 not ordered yet. 1 job holds devices now" in text
    first, second = lines(text)
    assert first.startswith("1 a job of another project 1 GPU")
    assert second.startswith("2 alpha olga · vision 1 GPU")
    stored = dict(Job.objects.filter(status="queued").values_list("name", "position"))
    assert stored == {"zebra": 1, "alpha": 2}


def test_of_others_one_reads_what_is_asked_and_why_it_waits_but_not_whose_it_is(page, full):
    foreign = Job.objects.get(name="zebra")
    reason = dict(foreign.reason or {}, sentence="secret is over its quota", said=None)
    Job.objects.filter(pk=foreign.pk).update(reason=reason, bypassed=3, hold_owner="eve")
    text = page()
    known = set(re.findall(r"[\w-]+", text))
    assert not {"eve", "zebra", "secret", foreign.label} & known
    assert "Insufficient resources" in lines(text)[0]
    assert "bypassed 3 times" in lines(text)[0]


def test_names_of_others_stand_there_where_the_platform_says_so(page, full, monkeypatch):
    monkeypatch.setattr(settings, "PLATFORM", _platform(queue_names="all"))
    first = lines(page())[0]
    assert "zebra eve · secret" in first
    assert f"/jobs/{Job.objects.get(name='zebra').label}/" not in page()


def _platform(**knobs):
    return replace(settings.PLATFORM, **knobs)


def test_a_platform_admin_reads_and_opens_all_of_it(client, full):
    client.force_login(a_user("root", is_superuser=True))
    text = client.get("/queue/").content.decode()
    assert "zebra eve · secret" in lines(text)[0]
    assert f"/jobs/{Job.objects.get(name='zebra').label}/" in text
    assert "Hold zebra" in lines(text)[0]


def test_who_waits_for_an_approval_or_was_not_looked_at_is_not_hidden(client, page, full, team):
    olga = team.memberships.get().user
    for name in ("asks", "new"):
        a_job(olga, team, name=name, device={"gpus": 1})
    Job.objects.filter(name="asks").update(
        status="awaiting_approval", position=None, reason={"code": "approval", "class": "ask"}
    )
    Job.objects.filter(name="new").update(position=None, reason=None, estimate=None)
    text = page()
    assert "3 in order, 1 not ordered yet" in text
    shown = lines(text)
    assert len(shown) == 4
    assert shown[2].startswith("not yet asks")
    assert "Approval" in shown[2]
    assert "Decide" not in shown[2]
    assert "Not evaluated yet" in shown[3]
    team.memberships.update(role=Role.ADMIN)
    assert "Decide" in lines(page())[2]


def test_a_reservation_and_what_makes_the_order_are_told(page, full):
    policy_set(actor="root", bypass_limit=5, order="fifo")
    Job.objects.filter(name="alpha").update(
        reserved_at=timezone.now(), bypassed=5, preempted=1, priority="high"
    )
    text = page()
    assert "at the latest: a place is reserved for it" in lines(text)[1]
    for words in (
        "high",
        "bypassed 5 times",
        "bypass limit reached: first in its band",
        "preempted 1 time",
    ):
        assert words in lines(text)[1]
    assert "first come, first served" in text
    assert "bypassed 5 times goes first in its band" in text


def test_it_says_what_frees_next_at_the_latest(page, full, secret):
    leaving = page().partition('data-part="frees-next"')[2]
    assert "runs" in leaving
    assert "n1" in leaving
    assert "in 59" in leaving
    project, eve = secret
    Job.objects.filter(name="runs").update(project=project, owner=eve)
    hidden = page().partition('data-part="frees-next"')[2]
    assert "a job of another project" in hidden
    assert "runs" not in hidden.replace("No jobs are running", "")


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"whose": "mine"}, ["alpha"]),
        ({"whose": "project-vision"}, ["alpha"]),
        ({"reason": "resources"}, ["a job of another project", "alpha"]),
        ({"reason": "approval"}, []),
        ({"whose": "mine", "reason": "resources"}, ["alpha"]),
    ],
)
def test_the_queue_is_narrowed_by_its_address(page, full, fields, found):
    text = page(**fields)
    shown = lines(text)
    assert len(shown) == len(found)
    for line, name in zip(shown, found, strict=True):
        assert name in line
    assert ("Nothing matches" in text) is (not found)


@pytest.mark.parametrize(
    "fields", [{"whose": "project-secret"}, {"whose": "eve"}, {"reason": "<b>luck"}]
)
def test_a_wrong_filter_is_named_and_tells_nothing_of_others(page, full, fields):
    text = page(**fields)
    assert lines(text) == []
    assert "is not a valid choice" in text
    assert "A filter is invalid" in text
    assert "<b>luck" not in text


def test_an_unknown_project_reads_like_a_foreign_one(page, full):
    foreign = page(whose="project-secret").replace("project-secret", "")
    unknown = page(whose="project-nothing").replace("project-nothing", "")
    changing = r'(name="csrfmiddlewaretoken" value="[^"]*"|<time.*?</time>)'
    assert re.sub(changing, "", foreign) == re.sub(changing, "", unknown)


def test_an_empty_queue_says_so(page, olga, team):
    text = page()
    assert "No jobs are waiting" in text
    assert "The queue is empty" in text


def test_holding_asks_why_and_keeps_what_was_typed(client, full, olga):
    job = Job.objects.get(name="alpha")
    client.force_login(olga)
    asks = client.get(f"/jobs/{job.label}/hold").content.decode()
    assert "does not start until it is released" in asks
    empty = client.post(f"/jobs/{job.label}/hold", {"reason": "  "}).content.decode()
    assert "Enter a short reason" in empty
    assert 'value="  "' in empty
    client.post(f"/jobs/{job.label}/hold", {"reason": "<b>data</b> is late"})
    plan_once()
    text = client.get("/queue/").content.decode()
    assert "&lt;b&gt;data&lt;/b&gt; is late" in text
    assert "Release alpha" in " ".join(lines(text))
    client.post(f"/jobs/{job.label}/release")
    job.refresh_from_db()
    assert job.hold_owner == ""


def test_nobody_holds_or_releases_the_job_of_somebody_else(client, full, olga, team):
    foreign, own = Job.objects.get(name="zebra"), Job.objects.get(name="alpha")
    client.force_login(olga)
    for step in ("hold", "release"):
        answer = client.post(f"/jobs/{foreign.label}/{step}", {"because": "x"})
        assert answer.status_code == 404
    otto = a_user("otto")
    team.memberships.create(user=otto, role=Role.MEMBER)
    client.force_login(otto)
    assert client.get(f"/jobs/{own.label}/hold").status_code == 403
    assert client.post(f"/jobs/{own.label}/release").status_code == 403
    assert client.get(f"/jobs/{own.label}/release").status_code == 405
    assert Job.objects.filter(hold_owner="").count() == 3


def test_what_an_admin_holds_only_an_admin_releases(client, full, olga, team):
    job = Job.objects.get(name="alpha")
    ada = a_user("ada")
    team.memberships.create(user=ada, role=Role.ADMIN)
    client.force_login(ada)
    client.post(f"/jobs/{job.label}/hold", {"reason": "later"})
    client.force_login(olga)
    assert "Release alpha" not in client.get("/queue/").content.decode()
    assert client.post(f"/jobs/{job.label}/release").status_code == 403
    client.force_login(ada)
    client.post(f"/jobs/{job.label}/release")
    job.refresh_from_db()
    assert job.hold_owner == ""


@pytest.mark.slow
def test_a_queue_of_ten_thousand_asks_as_little_as_a_short_one_and_is_paged_whole(
    client, full, olga
):
    client.force_login(olga)
    client.get("/queue/")
    with CaptureQueriesContext(connection) as few:
        client.get("/queue/")
    many_jobs(Job.objects.get(name="alpha"), 10_000, first=3)
    client.get("/queue/")  # it reads the planner's snapshot, which the process keeps
    with CaptureQueriesContext(connection) as asked:
        text = client.get("/queue/").content.decode()
    assert len(asked) <= len(few) <= 18
    assert "10,002 jobs are waiting" in text
    assert len(lines(text)) == 50
    seen, path = [], "/queue/?whose=mine"
    for _ in range(4):
        text = client.get(path).content.decode()
        seen += [int(line.split()[0]) for line in lines(text)]
        path = "/queue/" + re.search(r'rel="next" href="([^"]+)"', text)[1].replace("&amp;", "&")
    assert seen == sorted(set(seen))
    assert len(seen) == 200


def test_the_stream_tells_the_same_as_the_page_and_holds_no_token(full, olga):
    event = first_event(olga, "/queue/stream?whose=mine")
    text = event.data
    assert event.name == "page"
    for part in ("head", "queue", "frees-next"):
        assert f'data-part="{part}"' in text
    assert "alpha" in text
    assert "zebra" not in text
    assert "csrfmiddlewaretoken" not in text


def test_the_stream_and_the_page_are_refused_without_signing_in(client):
    assert client.get("/queue/stream").status_code == 401
    assert client.get("/queue/").status_code == 302
