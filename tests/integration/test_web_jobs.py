"""The Jobs page: filtered by its address, paged by cursor, several ended at once, as CSV."""

import asyncio
import re

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.accounts.models import Role
from portal.csv_text import escape_formula
from portal.jobs.filters import ORDERS, JobFilters
from portal.jobs.models import Job
from portal.jobs.selectors import jobs_visible_to
from scheduler.core.model.states import JobStatus
from tests.support.event_stream import first_event
from tests.support.many_jobs import many_jobs
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def page(client, olga):
    client.force_login(olga)

    def get(path="/jobs/", **fields):
        answer = client.get(path, fields)
        return answer.status_code, answer.content.decode()

    return get


def many(owner, project, count, **columns) -> list[Job]:
    """Queued jobs of somebody, and nothing else."""
    like = a_job(owner, project)
    Job.objects.filter(pk=like.pk).delete()
    return many_jobs(like, count, **columns)


def names(text: str) -> list[str]:
    return re.findall(r'<th scope="row"><a href="[^"]+">([^<]+)</a>', text)


def test_the_address_narrows_the_list(page, olga, team):
    node = a_node("n1")
    a_job(olga, team, name="alpha")
    settle(node)
    otto = a_user("otto")
    team.memberships.create(user=otto, role=Role.MEMBER)
    beta = a_job(otto, team, name="beta", device={"gpus": 1})
    settle(node)
    beta.refresh_from_db()
    assert beta.reason is not None
    for fields, found in (
        ({}, ["beta", "alpha"]),
        ({"order": "oldest"}, ["alpha", "beta"]),
        ({"order": "started"}, ["alpha"]),
        ({"name": "ALP"}, ["alpha"]),
        ({"name": beta.label.lower()}, ["beta"]),
        ({"status": ["running", "placed"]}, ["alpha"]),
        ({"reason": [beta.reason["code"]]}, ["beta"]),
        ({"reason": "approval"}, []),
        ({"mine": "1"}, ["alpha"]),
        ({"mine": "0"}, ["beta", "alpha"]),
        ({"owner": "otto"}, ["beta"]),
        ({"project": "vision"}, ["beta", "alpha"]),
        ({"project": "other"}, []),
        ({"node": "n1"}, ["alpha"]),
        ({"node": "n2"}, []),
        ({"kind": "batch"}, ["beta", "alpha"]),
        ({"kind": "service"}, []),
        ({"submitted_after": "2020-01-01"}, ["beta", "alpha"]),
        ({"submitted_before": "2020-01-01T09:30+00:00"}, []),
    ):
        status, text = page(**fields)
        assert status == 200
        assert names(text) == found, fields
        if not found:
            assert "Nothing matches" in text
            assert "Clear filters" in text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "no-such-state"),
        ("reason", "bad luck"),
        ("kind", "cron"),
        ("mine", "perhaps"),
        ("order", "memory_mib"),
        ("submitted_after", "next <b>tuesday</b>"),
        ("submitted_before", "0001-01-01T00:00:00+14:00"),
        ("submitted_before", "2026-13-45"),
        ("owner", "o" * 151),
        ("name", "x" * 64),
        ("node", "a\0b"),
    ],
)
def test_a_wrong_value_is_named_and_kept_and_nothing_is_listed(page, olga, team, name, value):
    a_job(olga, team, name="alpha")
    status, text = page(**{name: value})
    assert status == 200
    assert f'id="{name}-error"' in text
    assert names(text) == []
    assert "A filter is invalid" in text
    assert "<b>tuesday" not in text
    if name.startswith("submitted") or name in ("owner", "name"):
        assert f'value="{value.replace("<", "&lt;").replace(">", "&gt;")}"' in text


def test_a_cursor_that_is_none_gives_the_first_page(page, olga, team):
    a_job(olga, team, name="alpha")
    for cursor in ("x", "-1", "9" * 30, "1~2", "2026-01-01~1", "²"):
        assert names(page(after=cursor)[1]) == ["alpha"], cursor
        assert names(page(before=cursor)[1]) == ["alpha"], cursor


@pytest.mark.parametrize("order", sorted(ORDERS))
def test_pages_by_cursor_show_every_job_once_while_new_ones_come(client, olga, team, order):
    same = timezone.now()
    columns = {"started_at": same, "finished_at": same, "status": JobStatus.SUCCEEDED}
    made = many(olga, team, 120, **columns)
    client.force_login(olga)
    seen: list[str] = []
    path = f"/jobs/?order={order}"
    for _ in range(3):
        text = client.get(path).content.decode()
        seen += names(text)
        many(olga, team, 1, name="later", **columns)
        onward = re.search(r'rel="next" href="([^"]+)"', text)
        path = "/jobs/" + onward[1].replace("&amp;", "&") if onward else ""
    old = [name for name in seen if name != "later"]
    assert sorted(old) == sorted(job.name for job in made)
    assert len(set(old)) == 120


def test_one_comes_back_to_the_page_before(client, olga, team):
    many(olga, team, 120)
    client.force_login(olga)

    def step(path, rel):
        text = client.get(path).content.decode()
        found = re.search(rf'rel="{rel}" href="([^"]+)"', text)
        return "/jobs/" + found[1].replace("&amp;", "&")

    second = step("/jobs/", "next")
    third = step(second, "next")
    assert names(client.get(step(third, "prev")).content.decode()) == names(
        client.get(second).content.decode()
    )


@pytest.mark.slow
def test_the_first_page_of_ten_thousand_jobs_asks_as_little_as_that_of_ten(client, olga, team):
    many(olga, team, 10)
    client.force_login(olga)
    client.get("/jobs/")
    with CaptureQueriesContext(connection) as few:
        client.get("/jobs/")
    many(olga, team, 10_000)
    with CaptureQueriesContext(connection) as asked:
        text = client.get("/jobs/").content.decode()
    assert len(asked) == len(few) <= 10
    assert len(names(text)) == 50
    assert "More than 10,000 jobs" in text
    # Only what is shown is read: every query has a limit, or the ids of the page.
    for query in (q["sql"] for q in asked if 'FROM "jobs_job"' in q["sql"]):
        assert "LIMIT" in query or '"jobs_job"."id" IN (' in query


def test_nobody_finds_jobs_of_others_by_any_filter(page, olga, team):
    eve = a_user("eve")
    node = a_node("n1")
    foreign = a_job(eve, a_project("secret", eve), name="zebra")
    settle(node)
    for fields in (
        {"owner": "eve"},
        {"project": "secret"},
        {"name": "zebra"},
        {"name": foreign.label},
        {"node": "n1"},
        {"status": "running"},
    ):
        assert names(page(**fields)[1]) == []


def test_what_is_lost_is_named_with_whose_it_is_before_anything_ends(client, olga, team):
    node = a_node("n1")
    runs = a_job(olga, team, name="runs")
    settle(node)
    otto, eve = a_user("otto"), a_user("eve")
    team.memberships.create(user=otto, role=Role.MEMBER)
    ottos = a_job(otto, team, name="ottos", device={"gpus": 1})
    foreign = a_job(eve, a_project("secret", eve), name="zebra")
    over = a_job(olga, team, name="over")
    Job.objects.filter(pk=over.pk).update(status=JobStatus.SUCCEEDED)
    client.force_login(olga)
    chosen = {"job": [runs.label, ottos.label, foreign.label, over.label, "J-99999"]}
    text = client.get("/jobs/cancel", chosen).content.decode()
    lost, _, stays = text.partition("Not cancelled")
    assert "Cancel this 1 job?" in lost
    assert "what it holds in memory is lost" in lost
    assert "only otto or an admin of vision may cancel it" in stays
    assert "2 more do not exist" in stays
    assert "zebra" not in text
    runs.refresh_from_db()
    assert runs.status == "running"

    answer = client.post("/jobs/cancel", chosen, follow=True).content.decode()
    assert "1 job cancelled" in answer
    assert "4 jobs not cancelled" in answer
    statuses = dict(Job.objects.values_list("name", "status"))
    assert statuses["runs"] == "stopping"
    assert statuses["ottos"] == "queued"
    assert statuses["zebra"] not in ("cancelled", "stopping")
    again = client.post("/jobs/cancel", chosen)
    assert again.status_code == 302


def test_an_admin_of_the_project_ends_the_jobs_of_its_members(client, olga, team):
    ada = a_user("ada")
    team.memberships.create(user=ada, role=Role.ADMIN)
    job = a_job(olga, team)
    client.force_login(ada)
    assert "<b>olga</b>" in client.get("/jobs/cancel", {"job": job.label}).content.decode()
    client.post("/jobs/cancel", {"job": job.label})
    job.refresh_from_db()
    assert job.status == "cancelled"


def test_choosing_none_or_too_many_says_what_to_do(client, olga, team):
    client.force_login(olga)
    none = client.get("/jobs/cancel", {"filters": "name=x&next=//elsewhere"}, follow=True)
    assert "Select at least one job" in none.content.decode()
    assert none.redirect_chain == [("/jobs/?name=x", 302)]
    lots = {"job": [f"J-{n}" for n in range(201)]}
    assert "at most 200" in client.post("/jobs/cancel", lots, follow=True).content.decode()


def test_ending_jobs_needs_the_token_of_the_form(olga, team):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(olga)
    job = a_job(olga, team)
    assert strict.post("/jobs/cancel", {"job": job.label}).status_code == 403
    job.refresh_from_db()
    assert job.status == "queued"


def csv_of(user, query=""):
    async def read():
        client = AsyncClient()
        await client.aforce_login(user)
        answer = await client.get(f"/jobs.csv{query}")
        if answer.streaming:
            return answer, b"".join([part async for part in answer.streaming_content]).decode()
        return answer, answer.content.decode()

    return asyncio.run(read())


def test_the_filtered_list_is_a_csv_without_formulas(olga, team):
    many(olga, team, 620)
    Job.objects.filter(name="job-00007").update(name='=HYPERLINK("//x")')
    a_job(olga, team, name="other")
    answer, text = csv_of(olga, "?name=HYPER")
    assert answer["Content-Type"].startswith("text/csv")
    assert "attachment" in answer["Content-Disposition"]
    lines = text.lstrip("\ufeff").splitlines()
    assert lines[0].startswith("job,name,project,owner")
    assert len(lines) == 2
    assert "\"'=HYPERLINK" in lines[1]
    assert len(csv_of(olga, "?status=queued")[1].splitlines()) == 622


def test_a_csv_of_a_wrong_filter_or_of_nobody_is_refused(client, olga, team):
    answer, text = csv_of(olga, "?status=odd")
    assert answer.status_code == 400
    assert "odd is not a valid choice" in text
    assert client.get("/jobs.csv").status_code == 302


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", " =1", "＝1"])
def test_what_a_table_would_calculate_becomes_text(text):
    assert escape_formula(text) == f"'{text}"


def test_usual_words_stay_as_they_are():
    assert escape_formula("a-b=c") == "a-b=c"


def test_the_stream_refreshes_the_rows_that_stand_there_and_tells_of_new_ones(olga, team):
    shown = a_job(olga, team, name="shown")
    eve = a_user("eve")
    foreign = a_job(eve, a_project("secret", eve), name="zebra")
    a_job(olga, team, name="newer")
    path = f"/jobs/stream?row={shown.pk}&row={foreign.pk}&row=x"
    event = first_event(olga, path)
    text = event.data
    assert event.name == "page"
    assert f'data-part="{shown.label}-status"' in text
    assert "zebra" not in text
    assert "1 newer job" in text
    assert 'href="?project="' in text


def test_the_stream_is_refused_without_signing_in(client):
    assert client.get("/jobs/stream").status_code == 401


def test_the_filters_serve_another_caller_than_the_page(olga, team):
    job = a_job(olga, team, name="alpha")
    rows = jobs_visible_to(olga)
    assert list(JobFilters(QueryDict("mine=true"), rows, user=olga).qs) == [job]
    wrong = JobFilters(QueryDict("status=x&kind=y"), rows, user=olga)
    assert set(wrong.errors) == {"status", "kind"}
    assert not wrong.qs.exists()


def test_a_row_leads_to_what_would_start_its_owner_now(client, page, olga, team):
    job = a_job(olga, team, name="alpha", device={"gpus": 1})
    others = [{"sentence": "x", "changes": {"replicas": 1}}, {"sentence": "y", "changes": {}}]
    reason = {"code": "resources", "class": "wait", "sentence": "All", "alternatives": others}
    Job.objects.filter(pk=job.pk).update(reason=reason)
    for path in ("/jobs/", "/queue/"):
        text = page(path)[1]
        assert f'href="/jobs/{job.label}/">2 changes would start it now' in text, path
    ada = a_user("ada")
    team.memberships.create(user=ada, role=Role.ADMIN)
    client.force_login(ada)
    assert "would start it now" not in client.get("/queue/").content.decode()
