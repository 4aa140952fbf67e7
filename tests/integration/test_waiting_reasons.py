"""Why a job waits, as people read it: on its page, in lists, over REST, and never too much."""

import json
from html import unescape
from io import StringIO
from urllib.parse import parse_qs, urlparse

import pytest
from django.core.management import call_command
from django.utils import timezone

from agents.contract.message import verbatim
from portal.jobs.models import Job
from portal.planning.visible_reasons import visible_projects, visible_reason
from scheduler.core.model.reasons import Reason, ReasonCode
from scheduler.core.model.states import JobStatus
from scheduler.core.snapshot_file import read_pass
from scheduler.estimates import estimates_refresh
from scheduler.replay.__main__ import main
from tests.support.ended_jobs import ended_jobs
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)

WHOLE = {"device": {"gpus": 1}}
QUOTA = Reason(
    ReasonCode.QUOTA_PROJECT,
    verbatim("vision may use 1 GPU at once; 3 borrowed by other projects"),
    {
        "limit_units": 56_000,
        "held_by": {"olga": 84_000},
        "borrowed_by": {"moonshot": 112_000, "robots": 56_000},
    },
    verbatim("It starts when others end"),
)


@pytest.fixture
def olga(client):
    olga = a_user("olga")
    client.force_login(olga)
    return olga


@pytest.fixture
def team(olga):
    return a_project("vision", olga)


@pytest.fixture
def read(client):
    def read(url, **query):
        answer = client.get(url, query)
        assert answer.status_code == 200
        return unescape(answer.content.decode())

    return read


@pytest.fixture
def waiting(olga, team):
    """It wants a whole GPU, and a part of one is free."""
    ended_jobs(olga, team)
    node = a_node("n1", gpus=2)
    a_job(olga, team, device={"mig": "4g.71gb"})
    a_job(olga, team, **WHOLE)
    waiting = a_job(olga, team, time_limit="8h", env={"A": "x"}, **WHOLE)
    settle(node)
    estimates_refresh()
    waiting.refresh_from_db()
    assert waiting.status == JobStatus.QUEUED
    return waiting


def test_the_page_says_why_how_long_and_what_would_start_now(read, waiting):
    text = read(f"/jobs/{waiting.label}/")
    assert waiting.reason["sentence"] in text
    counts = "1 in total, 1 with this GPU, 1 eligible, 1 with CPU and memory, 0 with enough room"
    assert counts in text
    assert "Jobs of this project on such GPUs" in text
    assert "in about" in text
    assert waiting.estimate["basis"] in text
    assert "With 3g.71gb" in text


def test_an_alternative_opens_the_form_filled_in_and_one_click_starts_it(client, read, waiting):
    text = read(f"/jobs/{waiting.label}/")
    address = text.split('<a class="small" href="')[1].split('"')[0]
    query = parse_qs(urlparse(address).query)
    assert query["like"] == [waiting.label]
    form = read(address)
    assert 'value="3g.71gb" checked' in form
    assert "A=x" in form
    assert "Can start now" in form
    values = client.get(address).context["values"]
    answer = client.post("/request/", values)
    job = Job.objects.latest("pk")
    assert answer.headers["Location"] == f"/jobs/{job.label}/"
    assert job.request["device"] == {"mig": "3g.71gb"}
    assert job.request["time_limit"] == waiting.request["time_limit"]


def test_an_address_that_makes_no_sense_is_a_plain_clone(read, waiting):
    for change in (
        "{",
        "[]",
        '{"project": "secret"}',
        '{"device": 3}',
        '{"device": {"mps": {}, "models": 4}}',
        '{"device": {"mps": {"threads": 5}}}',
        '{"needs": "nvme"}',
        "9" * 5_000,
    ):
        form = read("/request/", like=waiting.label, change=change)
        assert 'name="amount" value="gpus" checked' in form, change[:40]


def test_each_kind_of_change_has_its_place_in_the_form(read, waiting):
    memory = {"device": {"memory": "20GiB", "isolation": "any"}}
    for changes, shown in (
        ({"replicas": 3}, 'name="replicas" value="3"'),
        ({"time_limit": "15m"}, 'name="time_limit" value="15m"'),
        ({"topology": "any"}, '<option value="any" selected>'),
        (memory, 'name="device_memory" value="20GiB"'),
        (memory, '<option value="any" selected>'),
        ({"device": {"gpus": 1, "models": ["H200"]}}, 'name="models" value="H200"'),
        ({"needs": ["nvme", "zone=a"]}, 'name="needs" value="nvme zone=a"'),
    ):
        form = read("/request/", like=waiting.label, change=json.dumps(changes))
        assert shown in form, changes


def test_without_a_basis_the_pages_say_so(read, waiting):
    Job.objects.update(estimate=None)
    assert "no estimate: no history to go by" in read(f"/jobs/{waiting.label}/")
    assert "no estimate" in read("/jobs/")
    assert "at the latest: a place is reserved for it" in read("/"), "what is known instead"


def test_lists_show_position_and_expected_start(read, waiting):
    assert "Expected start" in read("/jobs/")
    assert "in about" in read("/jobs/")
    home = read("/")
    assert "position <b>1</b>" in home
    assert "is expected to start in" in home


def test_the_form_says_how_long_a_request_would_wait(client, waiting):
    form = client.get("/request/", {"like": waiting.label}).context["values"]
    text = unescape(client.post("/request/preview", form).content.decode())
    assert "Would wait, probably about" in text


def test_the_folded_fields_of_the_form_reach_the_request(client, olga, team, waiting):
    form = client.get("/request/", {"like": waiting.label}).context["values"]
    fields = {
        "begin_at": "+2h",
        "after": f"{waiting.label}",
        "needs": "nvme, zone=a",
        "tolerates": "big",
        "preemptible": "yes",
        "models": "H200",
    }
    a_node("n2")
    Job.objects.filter(pk=waiting.pk).update(request=waiting.request | {"device": {"gpus": 1}})
    client.post("/request/", form | fields | {"needs": "", "tolerates": ""})
    job = Job.objects.latest("pk")
    assert job.preemptible
    assert list(job.after.all()) == [waiting]
    assert job.begin_at > timezone.now()
    assert job.request["device"] == {"gpus": 1, "models": ["H200"]}
    again = client.get("/request/", {"like": job.label}).context["values"]
    assert (again["after"], again["preemptible"]) == (waiting.label, "yes")
    assert again["begin_at"].startswith(f"{job.begin_at:%Y-%m-%dT%H:%M}")
    answer = client.post("/request/", form | fields | {"begin_at": "soon", "key": "other"})
    assert answer.status_code == 400
    assert "begin_at" in answer.context["errors"]
    assert '<details class="block" open>' in answer.content.decode()


def test_rest_gives_estimate_and_alternatives(client, waiting):
    body = client.get(f"/api/v1/jobs/{waiting.label}").json()
    assert body["reason"]["alternatives"] == waiting.reason["alternatives"]
    assert body["estimate"]["basis"] == waiting.estimate["basis"]
    assert body["estimate"]["optimistic"] <= body["estimate"]["pessimistic"]
    assert body["estimate"]["expected"].endswith("Z")
    (listed,) = client.get("/api/v1/jobs", {"status": "queued"}).json()["results"]
    assert listed["estimate"] == body["estimate"]
    Job.objects.update(status="running")
    assert client.get(f"/api/v1/jobs/{waiting.label}").json()["estimate"] is None


def test_names_of_foreign_projects_are_counted_not_told(client, read, waiting):
    Job.objects.filter(pk=waiting.pk).update(reason=QUOTA.as_dict())
    page = read(f"/jobs/{waiting.label}/")
    body = client.get(f"/api/v1/jobs/{waiting.label}").json()
    rows = client.get("/api/v1/jobs").json()
    for told in (page, json.dumps(body), json.dumps(rows)):
        assert "moonshot" not in told
        assert "robots" not in told
    assert "olga 1.50 GPU" in page, "who is in the same project is named"
    assert body["reason"]["evidence"]["borrowing_projects"] == 2
    assert body["reason"]["evidence"]["borrowed_by_others_units"] == 168_000


def test_who_is_in_a_project_reads_its_name_and_who_runs_the_platform_reads_all(olga):
    a_project("robots", olga)
    evidence = visible_reason(QUOTA.as_dict(), visible_projects(olga))["evidence"]
    assert evidence["borrowed_by"] == {"robots": 56_000}
    assert (evidence["borrowing_projects"], evidence["borrowed_by_others_units"]) == (1, 112_000)
    root = a_user("root", is_superuser=True)
    assert visible_reason(QUOTA.as_dict(), visible_projects(root)) == QUOTA.as_dict()


def test_a_saved_pass_is_planned_again_by_the_replay(waiting, tmp_path, capsys):
    text = StringIO()
    call_command("planning_pass", stdout=text)
    snapshot, _ = read_pass(text.getvalue())
    assert [job.id for job in snapshot.jobs] == [str(waiting.pk)]
    file = tmp_path / "pass.json"
    call_command("planning_pass", output=file, stderr=StringIO())
    capsys.readouterr()
    assert main(["snapshot", str(file)]) == 0
    assert waiting.reason["sentence"] in capsys.readouterr().out
