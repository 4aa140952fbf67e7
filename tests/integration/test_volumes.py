"""Volumes from the admin who makes one to the node that is told of it, and who may use it."""

import re

import pytest

from agents.contract.volumes import OfferedRoot, VolumeSize
from portal.audit.models import AuditEntry
from portal.errors import Refused
from portal.jobs.models import Job
from portal.jobs.services import job_cancel
from portal.volumes.models import Volume, VolumeUse
from portal.volumes.selectors import node_roots, visible_volumes, volume_state
from portal.volumes.services import VolumeValues, volume_create, volume_delete, volume_update
from scheduler.core.model.states import JobStatus
from scheduler.tasks import plan_once
from tests.support.request_form import a_form
from tests.support.rows import a_job, a_node, a_project, a_request, a_user, settle

pytestmark = pytest.mark.django_db

WHOLE = {"device": {"gpus": 1}}
READ = [{"volume": "imagenet", "path": "/data", "read_only": True}]
ROOT = OfferedRoot("datasets", False, 100, 200, (VolumeSize("images", 64, 7, True, 1_800_000_000),))


@pytest.fixture
def admin():
    return a_user("root", is_superuser=True)


@pytest.fixture
def olga():
    return a_user("olga")


@pytest.fixture
def team(olga):
    return a_project("vision", olga)


@pytest.fixture
def imagenet(admin, team):
    return a_volume(admin, team)


def a_volume(admin, *projects, name="imagenet", **values):
    place = {"root": "datasets", "subpath": "images"}
    chosen = VolumeValues(projects=projects, **values)
    return volume_create(actor=admin, name=name, **place, values=chosen)


def a_node_with(*roots, name="n1"):
    node = a_node(name, gpus=2)
    node.volume_roots = roots
    node.report()
    return node


def code_of(refused):
    return refused.value.code, refused.value.field


def test_a_job_runs_where_its_volume_is_and_the_node_is_told_of_it(olga, team, imagenet):
    bare, node = a_node("bare", gpus=2), a_node_with(ROOT)
    job = a_job(olga, team, **WHOLE, volumes=["imagenet:/data:ro", "imagenet:/out"])
    settle(bare, node)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING and not bare.desired.replicas
    (replica,) = node.desired.replicas
    assert [(v.name, v.root, v.subpath, v.path, v.read_only) for v in replica.volumes] == [
        ("imagenet", "datasets", "images", "/data", True),
        ("imagenet", "datasets", "images", "/out", False),
    ]
    assert job.request["volumes"][0] == READ[0]


def test_a_job_waits_for_a_node_that_offers_its_volume_and_names_those_that_do_not(
    olga, team, imagenet
):
    node = a_node_with(OfferedRoot("datasets", True, 1, 2))
    job = a_job(olga, team, **WHOLE, volumes=["imagenet:/data"])
    plan_once()
    job.refresh_from_db()
    assert job.reason["code"] == "volume"
    assert job.reason["evidence"]["nodes"] == {"n1": "n1 offers datasets for reading only"}
    node.volume_roots = (ROOT,)
    node.report()
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING


def test_a_driver_of_docker_volumes_is_a_place_like_a_root(client, olga, team, admin):
    """The planner's filter and its reason, what the node is told, and what REST says."""
    node = a_node_with(OfferedRoot("fast", True, driver="local"))
    values = VolumeValues(projects=(team,))
    with pytest.raises(Refused) as refused:
        volume_create(actor=admin, name="deep", root="fast", subpath="a/b", values=values)
    assert code_of(refused) == ("path_invalid", "subpath")
    volume_create(actor=admin, name="cache", root="fast", subpath="cache", values=values)
    job = a_job(olga, team, **WHOLE, volumes=["cache:/data"])
    plan_once()
    job.refresh_from_db()
    assert job.reason["evidence"]["nodes"] == {"n1": "n1 offers fast for reading only"}
    client.force_login(olga)
    (row,) = client.get("/api/v1/volumes").json()["results"]
    assert [(each["node"], each["driver"]) for each in row["nodes"]] == [("n1", "local")]
    node.volume_roots = (OfferedRoot("fast", driver="local"),)
    node.report()
    settle(node)
    (replica,) = node.desired.replicas
    assert [(each.root, each.subpath) for each in replica.volumes] == [("fast", "cache")]


def test_what_changes_in_a_volume_does_not_make_every_node_be_read_again(imagenet):
    """Free space and sizes are beside what placements rest on."""
    node = a_node_with(ROOT)
    node.row.refresh_from_db()
    before = node.row.facts["volume_roots"]
    node.volume_roots = (OfferedRoot("datasets", False, 50, 200),)
    node.report()
    node.row.refresh_from_db()
    assert node.row.facts["volume_roots"] == before == ["datasets", "datasets:write"]
    assert node.row.facts["volume_space"][0]["free_mib"] == 50


def test_a_volume_of_another_project_reads_like_none(olga, team, admin):
    theirs = a_project("speech", a_user("sam"))
    a_volume(admin, theirs)
    for name in ("imagenet", "no-such"):
        with pytest.raises(Refused) as refused:
            a_job(olga, team, volumes=[f"{name}:/data"])
        assert code_of(refused) == ("volume_unknown", "volumes")
        sentence = refused.value.message.text
        assert sentence == f"vision has no volume {name}. Its volumes: none"
    assert not visible_volumes(olga).exists()
    assert not VolumeUse.objects.exists()


def test_a_volume_that_may_only_be_read_is_read_only_in_every_job(olga, team, admin):
    a_volume(admin, team, read_only=True)
    node = a_node_with(OfferedRoot("datasets", True, 1, 2))
    a_job(olga, team, **WHOLE, volumes=["imagenet:/data"])
    settle(node)
    (replica,) = node.desired.replicas
    assert replica.volumes[0].read_only


def test_a_dry_run_says_that_no_node_has_the_volume(client, olga, team, imagenet):
    client.force_login(olga)
    a_node("n1", gpus=1)
    body = a_request(team, **WHOLE, volumes=READ)
    found = client.post("/api/v1/jobs?dry_run=true", body, content_type="application/json").json()
    assert found["reason"]["code"] == "volume"


def test_the_request_page_offers_the_volumes_of_the_projects_and_takes_their_paths(
    client, olga, team, imagenet, admin
):
    a_node_with(ROOT)
    a_volume(admin, team, name="models", read_only=True)
    a_volume(admin, a_project("speech"), name="theirs")
    client.force_login(olga)
    page = client.get("/request/").content.decode()
    assert 'name="volume:imagenet"' in page and 'name="volume:models"' in page
    assert 'name="volume:imagenet:ro"' in page and "theirs" not in page
    form = a_form(amount="gpus", gpus="1", **{"volume:imagenet": "/data", "volume:models": ""})
    form |= {"volume:imagenet:ro": "on"}
    assert client.post("/request/", form).status_code == 302
    job = Job.objects.get()
    assert job.request["volumes"] == READ
    again = client.get(f"/request/?like={job.label}").content.decode()
    assert re.search(r'name="volume:imagenet" value="/data"', again)
    wrong = client.post("/request/", form | {"volume:models": "/etc"}).content.decode()
    assert 'id="volumes-error"' in wrong and "/etc is needed by the system" in wrong
    assert Job.objects.count() == 1


def test_nothing_is_taken_from_jobs_that_use_it(olga, team, admin, imagenet):
    job = a_job(olga, team, **WHOLE, volumes=READ)
    other = a_project("speech")
    changes = {
        "read_only": VolumeValues(projects=(team,), read_only=True),
        "projects": VolumeValues(projects=(other,)),
    }
    for field, values in changes.items():
        with pytest.raises(Refused) as refused:
            volume_update(volume=imagenet, actor=admin, values=values)
        assert code_of(refused) == ("volume_in_use", field)
    with pytest.raises(Refused) as refused:
        volume_delete(volume=imagenet, actor=admin)
    assert job.label in refused.value.message.text
    shared = VolumeValues(projects=(team, other), quota_mib=10, description="pictures")
    row = volume_update(volume=imagenet, actor=admin, values=shared, version=1)
    assert (row.version, row.quota_mib) == (2, 10)
    job_cancel(job=job, actor=olga)
    volume_delete(volume=imagenet, actor=admin, version=2)
    assert not Volume.objects.exists()
    actions = (
        AuditEntry.objects.filter(noun="volume").order_by("id").values_list("action", flat=True)
    )
    assert list(actions) == ["volume_create", "volume_change", "volume_delete"]


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"name": "Image Net"}, ("name_invalid", "name")),
        ({"root": "/srv"}, ("root_invalid", "root")),
        ({"subpath": "../b"}, ("path_invalid", "subpath")),
        ({"subpath": "/etc"}, ("path_invalid", "subpath")),
        ({"projects": ()}, ("list_empty", "projects")),
        ({"quota_mib": -1}, ("limit_invalid", "quota_mib")),
        ({"description": "a\x07"}, ("description_invalid", "description")),
    ],
)
def test_a_volume_that_could_be_elsewhere_is_refused(admin, team, fields, refusal):
    place = {"name": "a", "root": "datasets", "subpath": "images"}
    place |= {name: fields[name] for name in place if name in fields}
    values = {"projects": (team,)} | {n: v for n, v in fields.items() if n not in place}
    with pytest.raises(Refused) as refused:
        volume_create(actor=admin, **place, values=VolumeValues(**values))
    assert code_of(refused) == refusal


def test_only_platform_admins_make_volumes_and_a_name_is_there_once(olga, team, admin, imagenet):
    for actor, code in ((olga, "forbidden"), (admin, "name_taken")):
        with pytest.raises(Refused) as refused:
            a_volume(actor, team)
        assert refused.value.code == code


def test_a_volume_is_shown_as_the_nodes_measured_it(team, admin):
    volume = a_volume(admin, team, quota_mib=63)
    a_node_with(ROOT)
    a_node_with(OfferedRoot("datasets", True, 1, 2), name="n2")
    state = volume_state(volume, node_roots())
    assert [each.node for each in state.nodes] == ["n1", "n2"]
    assert (state.used_mib, state.used_files, state.is_partial) == (64, 7, True)
    assert state.is_over_quota
