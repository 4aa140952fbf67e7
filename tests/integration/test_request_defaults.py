"""What a request leaves out is filled by the server, the same for the page and REST, and fits."""

import pytest

from portal.jobs.models import Job
from scheduler.core.model.states import JobStatus
from tests.support.request_form import a_form
from tests.support.rows import a_node, a_request, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def olga(client):
    olga = a_user("olga")
    client.force_login(olga)
    return olga


def bare(team, **fields):
    """A request without amounts of the host."""
    body = a_request(team, **fields)
    return {name: value for name, value in body.items() if name not in ("cpu", "memory")}


def post(client, body, *, dry_run=False):
    path = "/api/v1/jobs" + ("?dry_run=true" if dry_run else "")
    return client.post(path, body, content_type="application/json")


@pytest.mark.parametrize(
    ("device", "typed", "slices_per_gpu"),
    [
        ({"gpus": 1}, {"amount": "gpus"}, 1),
        ({"mig": "2g.35gb"}, {"amount": "2g.35gb"}, 4),
        ({"memory": "100GiB"}, {"amount": "memory", "device_memory": "100GiB"}, 1),
    ],
    ids=["gpu", "mig", "memory"],
)
def test_the_page_and_rest_store_the_same_share_of_the_node(
    client, team, device, typed, slices_per_gpu
):
    a_node("n1", gpus=8)
    answer = post(client, bare(team, device=device, time_limit="30m"))
    assert answer.status_code == 201, answer.content
    form = a_form(name="sum", command="python sum.py", env="", cpu="", memory="", **typed)
    assert client.post("/request/", form).status_code == 302
    over_rest, on_page = Job.objects.order_by("pk")
    assert over_rest.request == on_page.request
    assert over_rest.cpu_milli == 64_000 // 8 // slices_per_gpu
    assert over_rest.memory_mib == 512 * 1_024 // 8 // slices_per_gpu
    assert over_rest.request["shm"] == f"{32 // slices_per_gpu}GiB"


def test_jobs_with_default_amounts_fill_a_node(client, olga, team):
    node = a_node("n1", gpus=2)
    for device in [{"gpus": 1}, *[{"mig": "2g.35gb"}] * 3]:
        assert post(client, bare(team, device=device)).status_code == 201
    settle(node)
    assert set(Job.objects.values_list("status", flat=True)) == {JobStatus.RUNNING}


def test_a_dry_run_warns_of_too_little_memory_for_a_framework(client, team):
    a_node("n1", gpus=2)
    body = a_request(team, memory="512MiB")
    (warning,) = post(client, body, dry_run=True).json()["warnings"]
    sentence = "512 MB of memory is less than a framework such as PyTorch needs to start"
    assert warning["field"] == "memory" and warning["sentence"].startswith(sentence)
    assert post(client, bare(team), dry_run=True).json()["warnings"] == []
    form = a_form(memory="512MiB")
    assert sentence in client.post("/request/preview", form).content.decode()
    assert sentence not in client.post("/request/preview", a_form(memory="")).content.decode()


def test_a_dry_run_warns_of_shared_memory_that_does_not_fit_in_the_memory(client, team):
    a_node("n1", gpus=2)
    body = a_request(team, memory="4GiB", shm="16GiB")
    (warning,) = post(client, body, dry_run=True).json()["warnings"]
    assert warning["field"] == "shm" and "16 GB does not fit in 4 GB" in warning["sentence"]
    form = a_form(memory="4GiB", shm="16GiB")
    chinese = {"headers": {"Accept-Language": "zh-hans"}}
    assert "4 GB 容不下 16 GB" in client.post("/request/preview", form, **chinese).content.decode()
    assert post(client, body | {"shm": "4GiB"}, dry_run=True).json()["warnings"] == []


def test_the_page_says_in_one_line_what_a_replica_gets(client, team):
    a_node("n1", gpus=8)
    form = a_form(amount="gpus", cpu="", memory="")
    page = client.post("/request/preview", form).content.decode()
    assert "With it come 8 CPUs and 64 GB of memory (32 GB of it shared)" in page
    page = client.post("/request/preview", form | {"memory": "8GiB"}).content.decode()
    assert "Each replica gets 8 CPUs, 8 GB of memory, 4 GB of it shared." in page


def test_amounts_of_a_clone_follow_a_changed_device(client, team):
    a_node("n1")
    for _ in range(2):
        label = post(client, bare(team, device={"gpus": 1})).json()["id"]
    assert Job.objects.latest("pk").request["memory"] == "512GiB"
    page = client.get(f"/request/?like={label}").content.decode()
    assert 'name="memory" value=""' in page and 'name="cpu" value=""' in page
    changes = {"changes": {"device": {"mig": "1g.18gb"}}}
    again = client.post(f"/api/v1/jobs/{label}/replace", changes, content_type="application/json")
    assert again.status_code in (200, 201), again.content
    assert Job.objects.latest("pk").request["memory"] == "64GiB"
