"""Disk of a node, from what its agent says to what a job waits for; clones that lose nothing."""

import re
from html import unescape

import pytest
from django.test import override_settings

from portal.inventory.models import Node
from portal.job_secrets.services import secret_set
from portal.jobs.models import Job
from portal.settings.configured import PLATFORM
from scheduler.core.model.states import JobStatus
from scheduler.core.request.reader import FIELD_NAMES
from tests.integration.test_code_of_a_request import code_of
from tests.integration.test_volumes import a_volume
from tests.support.every_field import EVERY_FIELD
from tests.support.rows import a_job, a_node, a_project, a_request, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)

GIB = 1 << 10
WHOLE = {"device": {"gpus": 1}}


@pytest.fixture
def olga(client):
    olga = a_user("olga")
    client.force_login(olga)
    return olga


@pytest.fixture
def team(olga):
    return a_project("vision", olga)


def a_large_node(name="n1", *, gib=100, gpus=2):
    node = a_node(name, gpus=gpus)
    node.disk_mib = gib * GIB
    node.report()
    return node


def post(client, team, **fields):
    return client.post("/api/v1/jobs", a_request(team, **fields), content_type="application/json")


def the_form(page):
    """The fields of the request page as a browser would send them back."""
    page = page[page.index('id="request"') :].partition("</form>")[0]
    found = {}
    for field in re.findall(r"<input[^>]*>", page):
        name = re.search(r' name="([^"]*)"', field)
        value = re.search(r' value="([^"]*)"', field)
        is_chosen = 'type="radio"' not in field or " checked" in field
        if name and is_chosen and 'type="file"' not in field:
            found[name[1]] = unescape(value[1])
    for name, inside in re.findall(r'<select[^>]* name="([^"]*)"[^>]*>(.*?)</select>', page, re.S):
        chosen = re.search(r'value="([^"]*)" selected', inside)
        found[name] = unescape(chosen[1]) if chosen else ""
    for name, text in re.findall(
        r'<textarea[^>]* name="([^"]*)"[^>]*>(.*?)</textarea>', page, re.S
    ):
        found[name] = unescape(text)
    return found


def test_a_node_tells_its_disk_and_an_older_agent_none(client, olga):
    a_large_node("new")
    a_node("old")
    assert dict(Node.objects.values_list("name", "disk_mib")) == {"new": 102_400, "old": None}
    told = client.get("/api/v1/nodes").json()["results"]
    assert {node["name"]: node["disk_mib"] for node in told} == {"new": 102_400, "old": None}


def test_a_job_takes_its_disk_from_the_node_and_the_next_one_waits_for_it(client, olga, team):
    node = a_large_node()
    first = post(client, team, **WHOLE, disk="60GiB").json()["id"]
    second = post(client, team, **WHOLE, disk="50GiB").json()["id"]
    third = post(client, team, **WHOLE, disk="40GiB").json()["id"]
    settle(node)
    jobs = {job.label: job for job in Job.objects.all()}
    states = [jobs[label].status for label in (first, second, third)]
    assert states == [JobStatus.RUNNING, JobStatus.QUEUED, JobStatus.RUNNING]
    assert sorted(replica.disk_mib for replica in node.desired.replicas) == [40 * GIB, 60 * GIB]
    node.finish()
    settle(node)
    assert Job.objects.get(pk=jobs[second].pk).status == JobStatus.RUNNING


def test_who_waits_for_disk_is_told_so_on_the_page_and_over_rest(client, olga, team):
    node = a_large_node()
    a_job(olga, team, **WHOLE, disk="60GiB")
    settle(node)
    waiting = a_job(olga, team, **WHOLE, disk="50GiB")
    settle(node)
    said = "1 \u00d7 H200 would fit, but no such node has 50 GB of disk free"
    reason = client.get(f"/api/v1/jobs/{waiting.label}").json()["reason"]
    assert (reason["code"], reason["sentence"]) == ("resources", said)
    assert reason["evidence"]["filters"]["with_disk"] == 0
    page = unescape(client.get(f"/jobs/{waiting.label}/").content.decode())
    assert said in page and "0 with disk" in page and "40 GB" in page


def test_more_disk_than_any_node_has_is_refused_at_once_everywhere(client, olga, team):
    a_large_node()
    sentence = "No node with this GPU has 101 GB of disk for jobs; the largest has 100 GB"
    refused = post(client, team, **WHOLE, disk="101GiB")
    assert refused.status_code == 400
    assert sentence in refused.content.decode()
    checked = client.post(
        "/api/v1/jobs?dry_run=true",
        a_request(team, **WHOLE, disk="101GiB"),
        content_type="application/json",
    ).json()
    assert (checked["possible"], checked["reason"]["sentence"]) == (False, sentence)
    form = the_form(client.get("/request/").content.decode()) | {"amount": "gpus", "disk": "101GiB"}
    assert sentence in client.post("/request/preview", form).content.decode()
    assert sentence in client.post("/request/", form).content.decode()
    assert not Job.objects.exists()


def test_where_an_older_agent_does_not_tell_its_disk_such_a_job_waits_and_others_run(
    client, olga, team
):
    node = a_node("old", gpus=2)
    asks, other = (a_job(olga, team, **WHOLE, **more) for more in ({"disk": "1GiB"}, {}))
    settle(node)
    asks.refresh_from_db()
    other.refresh_from_db()
    assert (asks.status, other.status) == (JobStatus.QUEUED, JobStatus.RUNNING)
    assert asks.reason["sentence"].endswith("no such node reports 1 GB of disk")
    assert asks.reason["evidence"]["disk_not_told"] == 1
    node.disk_mib = 2 * GIB
    node.report()
    settle(node)
    asks.refresh_from_db()
    assert asks.status == JobStatus.RUNNING


@pytest.mark.parametrize("disk", ["lots", "-200", "0GiB"])
def test_what_is_no_disk_is_said_beside_its_field(client, olga, team, disk):
    a_large_node()
    refused = post(client, team, **WHOLE, disk=disk)
    assert [error["field"] for error in refused.json()["errors"]] == ["disk"]
    form = the_form(client.get("/request/").content.decode()) | {"disk": disk}
    page = client.post("/request/", form).content.decode()
    assert 'id="disk" name="disk"' in page and 'aria-invalid="true"' in page
    assert re.search(r"<details[^>]* open", page), "the folded part shows its errors"


def test_a_clone_asks_for_all_that_the_job_asked_for(client, olga, team):
    a_large_node(gpus=4)
    before = a_job(olga, team)
    for name in ("HF_TOKEN", "WANDB_API_KEY"):
        secret_set(actor=olga, name=name, value="of olga alone")
    a_volume(a_user("root", is_superuser=True), team)
    fields = EVERY_FIELD | {"code": str(code_of(team).pk)}
    job = a_job(olga, team, **fields, after=[before.label])
    assert set(job.request) == FIELD_NAMES, "this test asks for every field that there is"
    form = the_form(client.get(f"/request/?like={job.label}").content.decode())
    platform = type(PLATFORM)(**{**vars(PLATFORM), "nccl_tests_image": "nccl-tests:1"})
    with override_settings(PLATFORM=platform):
        assert client.post("/request/", form).status_code == 302
    clone = Job.objects.latest("pk")
    assert clone.pk != job.pk
    assert clone.array.request == job.request
    assert clone.disk_mib == 20 * GIB


def test_processes_that_nobody_chose_follow_the_gpus_of_a_clone(client, olga, team):
    a_large_node(gpus=4)
    job = a_job(olga, team, launcher="torchrun", device={"gpus": 4})
    assert job.request["processes"] == 4
    form = the_form(client.get(f"/request/?like={job.label}").content.decode()) | {"gpus": "2"}
    assert client.post("/request/", form).status_code == 302
    assert Job.objects.latest("pk").request["processes"] == 2


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("infrastructure_retries", "11"),
        ("user_retries", "many"),
        ("grace", "2h"),
        ("shm", "2 parsecs"),
        ("processes", "0"),
    ],
)
def test_what_is_wrong_with_a_further_amount_is_said_beside_its_field(
    client, olga, team, field, value
):
    a_large_node()
    form = the_form(client.get("/request/").content.decode()) | {field: value}
    page = client.post("/request/", form).content.decode()
    (shown,) = re.findall(rf'<input[^>]* name="{field}"[^>]*>', page)
    assert 'aria-invalid="true"' in shown and f'value="{value}"' in shown
