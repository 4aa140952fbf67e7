"""The request page: the same check as REST, an answer from the planner, nothing typed is lost."""

import re

import pytest

from portal.accounts.services import project_share_set
from portal.jobs.models import Job
from tests.support.request_form import a_form
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def olga(client):
    olga = a_user("olga")
    client.force_login(olga)
    return olga


@pytest.fixture
def team(olga):
    return a_project("vision", olga)


def test_a_form_becomes_the_request_that_rest_would_have_read(client, olga, team):
    a_node("n1")
    answer = client.post("/request/", a_form())
    job = Job.objects.get()
    assert answer.headers["Location"] == f"/jobs/{job.label}/"
    assert job.request["command"] == ["python", "probe.py", "--lr", "1e-4 "]
    assert job.request["env"] == {"A": "1", "B": "x=y"}
    assert job.request["device"] == {"mig": "2g.35gb"}
    assert job.owner == olga


def test_sending_the_form_twice_makes_one_job(client, team):
    a_node("n1")
    first, second = (client.post("/request/", a_form()) for _ in range(2))
    assert first.headers["Location"] == second.headers["Location"]
    assert Job.objects.count() == 1


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("replicas", "0", "replicas"),
        ("replicas", "1000", "replicas"),
        ("replicas", "two", "number"),
        ("replicas", "--5", "number"),
        ("time_limit", "-5m", "time_limit"),
        ("command", "echo 'open", "quote"),
        ("command", "", "command"),
        ("env", "NO EQUALS", "NAME=value"),
        ("env", "RANK=3", "RANK"),
        ("cpu", "5 potatoes", "cpu"),
        ("memory", "lots", "memory"),
        ("name", "-bad-", "name"),
        ("amount", "9g.999gb", "9g.999gb"),
        ("project", "secret", "secret"),
    ],
)
def test_bad_input_is_told_beside_its_field_and_nothing_typed_is_lost(
    client, team, field, value, said
):
    a_node("n1")
    answer = client.post("/request/", a_form(**{field: value}))
    text = answer.content.decode()
    assert answer.status_code == 400
    assert not Job.objects.exists()
    error = re.search(rf'id="{field}-error".*?<span>(.*?)</span>', text, re.DOTALL)
    assert error, f"no error beside {field}"
    assert len(error[1]) > 8
    assert "probe" in text
    if field != "command":
        assert "python probe.py --lr &#x27;1e-4 &#x27;" in text


def test_the_answer_says_where_it_would_run_and_changes_nothing(client, team):
    a_node("n1")
    text = client.post("/request/preview", a_form()).content.decode()
    assert "Can start now" in text
    assert "n1, GPU 0, 2g.35gb" in text
    assert not Job.objects.exists()


def test_the_answer_says_that_an_admin_would_have_to_approve_it(client, team):
    a_node("n1")
    project_share_set(project=team, actor="admin", approval_high=True)
    assert "Can start now" in client.post("/request/preview", a_form()).content.decode()
    asked = client.post("/request/preview", a_form(priority="high")).content.decode()
    assert "An admin must approve it first" in asked
    assert "Jobs with priority high need approval by an admin of vision" in asked
    assert not Job.objects.exists()


def test_the_answer_of_a_full_cluster_is_wait_with_the_reason(client, olga, team):
    node = a_node("n1")
    a_job(olga, team, device={"gpus": 1})
    settle(node)
    text = client.post("/request/preview", a_form(amount="gpus")).content.decode()
    assert "Would wait" in text
    assert "Submit and wait" in text
    assert "resources" in text


def test_what_can_never_run_is_told_before_it_is_sent(client, team):
    a_node("n1")
    text = client.post("/request/preview", a_form(amount="gpus", gpus="9")).content.decode()
    assert "Cannot run on this cluster" in text


def test_an_incomplete_form_is_answered_without_an_error_page(client, team):
    a_node("n1")
    answer = client.post("/request/preview", {"amount": "gpus"})
    assert answer.status_code == 200
    assert "Incomplete" in answer.content.decode()


def test_a_clone_is_filled_in_as_its_job_was_asked_for(client, olga, team):
    a_node("n1")
    job = a_job(olga, team, name="first", env={"LR": "1"}, replicas=3, topology="any")
    text = client.get("/request/", {"like": job.label}).content.decode()
    assert 'value="first"' in text
    assert 'name="replicas" value="3"' in text
    assert "LR=1</textarea>" in text
    assert 'value="2g.35gb" checked' in text


def test_cloning_a_foreign_job_shows_nothing_of_it(client, olga, team):
    a_node("n1")
    eve = a_user("eve")
    foreign = a_job(eve, a_project("secret", eve), name="zebra", env={"TOKEN": "hidden-value"})
    text = client.get("/request/", {"like": foreign.label}).content.decode()
    assert "zebra" not in text
    assert "hidden-value" not in text


def test_a_viewer_is_offered_no_form(client, olga):
    a_project("vision", olga, role="viewer")
    a_node("n1")
    text = client.get("/request/").content.decode()
    assert "You are not in a project yet" in text
    assert client.post("/request/", a_form()).status_code == 400
    assert not Job.objects.exists()


def test_the_cards_count_what_could_be_had_now(client, olga, team):
    node = a_node("n1", gpus=1)
    text = client.get("/request/").content.decode()
    assert "7 to carve" in text  # 1g.18gb on an empty H200
    a_job(olga, team, device={"gpus": 1})
    settle(node)
    assert "to carve" not in client.get("/request/").content.decode()
