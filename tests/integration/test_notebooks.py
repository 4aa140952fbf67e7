"""Notebooks on the pages and in REST: started in a click, opened from Home by their owner, with the
home volume of their project, and idle only when their kernels are."""

import re
from dataclasses import replace
from datetime import timedelta
from html import unescape

import pytest
from django.test import override_settings
from django.utils import timezone
from rest_framework.test import APIClient

from agents.contract.documents import ReplicaState
from agents.contract.notebooks import NotebookActivity
from agents.contract.volumes import MAX_VOLUMES
from portal.accounts.models import Membership, Role
from portal.agentapi.node_report import node_report
from portal.allocations.models import Allocation, AllocationSample
from portal.desired.documents import compile_desired
from portal.idle.models import IdleSpell, KernelActivity
from portal.idle.services import idle_jobs_sweep, idle_policy_set
from portal.jobs.models import Job
from portal.settings.configured import PLATFORM
from portal.volumes.models import Volume
from scheduler.core.request import parse_stored_request
from tests.support.rows import a_job, a_node, a_project, a_request, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)
LAUNCHERS = ("none", "torchrun", "jupyter", "code-server")
MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def _served():
    platform = type(PLATFORM)(**{**vars(PLATFORM), "apps_domain": "apps.test"})
    with override_settings(PLATFORM=platform):
        yield


@pytest.fixture
def olga():
    return a_user("olga")


@pytest.fixture
def team(olga):
    return a_project("vision", olga)


@pytest.fixture
def node():
    found = a_node("n1", gpus=2)
    found.launchers = LAUNCHERS
    return found


@pytest.fixture
def page(client, olga):
    client.force_login(olga)
    return lambda path="/": unescape(client.get(path).content.decode())


def start(user, team, node, **fields) -> Job:
    body = {"kind": "notebook", "command": [], "device": {"gpus": 1}} | fields
    job = a_job(user, team, **body)
    settle(node)
    job.refresh_from_db()
    assert job.status == "running", job.reason
    return job


def homes(*projects, name="homes"):
    volume = Volume.objects.create(name=name, root="scratch")
    volume.projects.set(projects)
    return volume


def test_rest_needs_no_more_than_the_word_notebook(olga, team, node):
    rest = APIClient()
    rest.force_authenticate(olga)
    body = a_request(team, kind="notebook")
    del body["command"]
    answer = rest.post("/api/v1/jobs", body, format="json")
    assert answer.status_code == 201, answer.json()
    job = Job.objects.get()
    assert (job.request["launcher"], job.request["apps"]) == ("jupyter", ["lab:8888"])


def test_a_click_fills_in_a_notebook_that_can_be_sent(page, team, node):
    settle(node)
    keys = re.findall(r'href="/request/\?start=(\w+)"', page())
    assert keys[:3] == ["jupyterlab", "vscode", "rstudio"]
    listed = re.findall(r'href="/request/\?start=(\w+)[^"]*" data-begin', page("/request/"))
    assert listed[:3] == keys[:3]
    for key in keys[:3]:
        text = page(f"/request/?start={key}")
        assert '<option value="notebook" selected>' in text
        assert 'aria-invalid="true"' not in text, key


def test_without_a_domain_of_apps_no_notebook_is_offered(page, team):
    with override_settings(PLATFORM=PLATFORM):
        assert "start=jupyterlab" not in page() + page("/request/")


def test_home_opens_it_for_its_owner_while_it_runs(page, olga, team, node):
    job = start(olga, team, node)
    opening = f'formaction="/jobs/{job.label}/apps/lab/open"'
    assert opening in page()
    assert "start=jupyterlab" in page()
    # Whoever only reads the project now opens nothing.
    Membership.objects.update(role=Role.VIEWER)
    assert opening not in page()


def test_a_member_of_the_project_sees_it_and_cannot_open_it(client, olga, team, node):
    job = start(olga, team, node)
    other = a_user("otto")
    Membership.objects.create(project=team, user=other, role=Role.ADMIN)
    client.force_login(other)
    assert client.get(f"/jobs/{job.label}/").status_code == 200
    assert client.post(f"/jobs/{job.label}/apps/lab/open").status_code == 403


@pytest.mark.parametrize("names", [("homes",), ("homes-vision", "homes")])
def test_its_home_is_on_the_volume_of_its_project(olga, team, names):
    for name in names:
        homes(team, name=name)
    homes(a_project("speech"), name="homes-speech")
    request = a_job(olga, team, kind="notebook", command=[]).request
    assert [(v["volume"], v["path"]) for v in request["volumes"]] == [(names[0], "/homes")]
    again = a_job(olga, team, kind="notebook", command=[], volumes=request["volumes"]).request
    assert again["volumes"] == request["volumes"]
    assert "volumes" not in a_job(olga, team).request


@pytest.mark.parametrize(
    "paths", [["/homes/mine"], [f"/data-{n}" for n in range(MAX_VOLUMES)]], ids=["inside", "many"]
)
def test_a_home_that_has_no_place_beside_its_volumes_is_left_out(olga, team, paths):
    """Nothing is stored that a request could not say: planner and node would not read it."""
    homes(team)
    own = [{"volume": "homes", "path": path, "read_only": False} for path in paths]
    request = a_job(olga, team, kind="notebook", command=[], volumes=own).request
    assert request["volumes"] == own
    parse_stored_request(request)


def test_a_home_of_another_project_or_to_be_read_only_is_none(olga, team):
    homes(a_project("speech"))
    Volume.objects.create(name="homes-vision", root="r", read_only=True).projects.set([team])
    assert "volumes" not in a_job(olga, team, kind="notebook", command=[]).request


def test_a_dry_run_says_what_is_lost_without_a_home(olga, team, node):
    settle(node)
    rest = APIClient()
    rest.force_authenticate(olga)
    body = a_request(team, kind="notebook", command=["jupyter", "lab"], launcher="jupyter")

    def warnings():
        answer = rest.post("/api/v1/jobs?dry_run=true", body, format="json")
        assert answer.status_code == 200, answer.json()
        return [each["sentence"] for each in answer.json()["warnings"]]

    assert any("a platform admin can make a volume homes-vision" in each for each in warnings())
    homes(team)
    assert not any("is lost" in each for each in warnings())


def test_its_page_says_what_is_kept(page, olga, team, node):
    job = start(olga, team, node)
    assert "when it ends, everything is lost except the files in" in page(f"/jobs/{job.label}/")
    job.request["volumes"] = [{"volume": "homes", "path": "/homes", "read_only": False}]
    job.save()
    assert "Your files in the volume homes are kept" in page(f"/jobs/{job.label}/")


@pytest.fixture
def now():
    """The node's reports carry the real time of the test, so the sweep does, too."""
    return timezone.now().replace(second=30, microsecond=0)


def report(node, minutes, *, fence=None):
    """The node reports what its notebooks said."""
    observed = node.observed()
    rows = [
        replace(
            row,
            notebook=None if minutes is None else NotebookActivity(minutes),
            fence=row.fence if fence is None else fence,
        )
        if row.state is ReplicaState.RUNNING
        else row
        for row in observed.replicas
    ]
    node_report(node.row.pk, replace(observed, replicas=tuple(rows)))


def policy(team):
    idle_policy_set(
        project=team, threshold_percent=5, warn_minutes=10, stop_minutes=20, actor="root"
    )


def measure(job, minutes, now):
    """Its GPUs did nothing."""
    newest = now.replace(second=0) - MINUTE
    AllocationSample.objects.bulk_create(
        AllocationSample(allocation=each, minute=newest - n * MINUTE, active_percent=0, why={})
        for each in Allocation.objects.filter(replica__attempt__job=job)
        for n in range(minutes)
    )


def test_a_busy_kernel_without_a_gpu_keeps_its_notebook_and_an_idle_one_does_not(
    olga, team, node, now
):
    job = start(olga, team, node)
    policy(team)
    measure(job, 60, now)
    idle_jobs_sweep(now)
    assert not IdleSpell.objects.exists(), "its node has said nothing of its kernels"
    report(node, 0)
    idle_jobs_sweep(now)
    assert not IdleSpell.objects.exists(), "a kernel is at work"
    report(node, 12)
    idle_jobs_sweep(now)
    spell = IdleSpell.objects.get()
    assert spell.stops_at == now + 10 * MINUTE
    report(node, 0)
    idle_jobs_sweep(now)
    assert not IdleSpell.objects.exists()


def test_an_idle_notebook_is_stopped_by_the_policy(olga, team, node, now):
    job = start(olga, team, node)
    policy(team)
    measure(job, 60, now)
    report(node, 45)
    idle_jobs_sweep(now)
    IdleSpell.objects.update(stops_at=now)
    idle_jobs_sweep(now)
    job.refresh_from_db()
    assert (job.status, job.stop_reason) == ("stopping", "idle")


def test_an_old_report_of_its_kernels_says_nothing(olga, team, node, now):
    job = start(olga, team, node)
    policy(team)
    measure(job, 60, now)
    report(node, 45)
    KernelActivity.objects.update(reported_at=now - 5 * MINUTE)
    idle_jobs_sweep(now)
    assert not IdleSpell.objects.exists()


def test_a_node_speaks_of_its_own_notebooks_and_of_this_attempt(olga, team, node):
    start(olga, team, node)
    report(node, 5, fence=10**6)
    assert not KernelActivity.objects.exists()
    report(node, 5)
    before = KernelActivity.objects.get()
    other = a_node("n2")
    observed = other.observed()
    own = compile_desired(node.row).replicas[0].id
    stolen = replace(
        next(row for row in node.observed().replicas if row.id == own),
        notebook=NotebookActivity(90),
    )
    node_report(other.row.pk, replace(observed, replicas=(stolen,)))
    assert KernelActivity.objects.get().active_at == before.active_at
    # Said again within a minute it writes nothing.
    report(node, 5)
    assert KernelActivity.objects.get().reported_at == before.reported_at


def test_jobs_that_are_no_notebooks_are_judged_by_their_gpus_alone(olga, team, node, now):
    job = start(olga, team, node, kind="batch", command=["python", "train.py"])
    policy(team)
    measure(job, 60, now)
    idle_jobs_sweep(now)
    assert IdleSpell.objects.filter(job=job).exists()
