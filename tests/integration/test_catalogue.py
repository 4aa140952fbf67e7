"""Templates of requests, and which images a project may ask for."""

import pytest
from django.test import Client

from portal.accounts.models import Membership, Role
from portal.audit.models import AuditEntry
from portal.catalogue.models import ImagePolicy, ImageRule, Template
from portal.catalogue.selectors import may_change_template, visible_templates
from portal.catalogue.services import (
    image_policy_set,
    template_delete,
    template_save,
    template_update,
)
from portal.errors import Refused
from portal.jobs.models import Job
from scheduler.core.request import InvalidRequest, parse_request
from tests.support.rows import LIMITS, a_job, a_node, a_project, a_request, a_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    return a_project("vision", alice)


@pytest.fixture
def root():
    return a_user("root", is_superuser=True, is_staff=True)


def as_(user) -> Client:
    client = Client()
    client.force_login(user)
    return client


def saved(by, project, name="Train", **fields) -> Template:
    request = a_request(project, **fields) if project else {"image": "i", "command": ["x"]}
    request |= {"device": {"gpus": 1}} if not project else {}
    return template_save(actor=by, project=project, name=name, request=request, limits=LIMITS)


def test_a_member_saves_a_request_and_it_can_be_submitted_as_it_stands(alice, vision):
    row = saved(alice, vision, device={"gpus": 2})
    assert "project" not in row.request and row.request["device"] == {"gpus": 2}
    again = parse_request(row.request | {"project": "vision"}, LIMITS)
    assert again.device.gpus == 2
    line = AuditEntry.objects.get()
    assert (line.action, line.actor, line.project) == ("template_save", "alice", vision)


def test_values_of_the_environment_stay_out_of_the_audit_line(alice, vision):
    saved(alice, vision, env={"TOKEN": "hunter2"})
    assert "hunter2" not in repr(AuditEntry.objects.get().after)


@pytest.mark.parametrize(
    "wrong", [{"device": {"gpus": 0}}, {"image": ""}, {"time_limit": "a while"}, {"what": 1}]
)
def test_the_one_parser_checks_a_template(alice, vision, wrong):
    with pytest.raises(InvalidRequest):
        saved(alice, vision, **wrong)
    assert not Template.objects.exists()


@pytest.mark.parametrize("name", ["", "a" * 64, "x\ny", "<b>", "\u202egnp"])
def test_a_name_that_could_mislead_is_refused(alice, vision, name):
    with pytest.raises(Refused, match="name_invalid"):
        saved(alice, vision, name)


def test_the_same_name_is_free_in_another_project_and_for_everybody(alice, vision, root):
    bio = a_project("bio", alice)
    for project, by in ((vision, alice), (bio, alice), (None, root)):
        saved(by, project)
        with pytest.raises(Refused, match="name_taken"):
            saved(by, project)
    assert Template.objects.count() == 3


def test_one_sees_those_of_everybody_and_of_ones_projects(alice, vision, root):
    eve = a_user("eve")
    other = a_project("other", eve)
    saved(root, None, "For all")
    saved(alice, vision, "Ours")
    saved(eve, other, "Theirs")
    assert [t.name for t in visible_templates(alice)] == ["For all", "Ours"]
    assert [t.name for t in visible_templates(alice, vision)] == ["For all", "Ours"]
    assert [t.name for t in visible_templates(root)] == ["For all", "Theirs", "Ours"]


def test_who_made_it_and_who_runs_the_project_change_it(alice, vision, root):
    bob, ada, vera = a_user("bob"), a_user("ada"), a_user("vera")
    for user, role in ((bob, Role.MEMBER), (ada, Role.ADMIN), (vera, Role.VIEWER)):
        Membership.objects.create(project=vision, user=user, role=role)
    row = saved(alice, vision)
    rights = {u.username: may_change_template(u, row) for u in (alice, bob, ada, vera, root)}
    assert rights == {"alice": True, "bob": False, "ada": True, "vera": False, "root": True}
    with pytest.raises(Refused, match="forbidden"):
        template_delete(template=row, actor=bob)
    with pytest.raises(Refused, match="forbidden"):
        saved(vera, vision, "Mine")
    with pytest.raises(Refused, match="forbidden"):
        saved(alice, None, "For all")


def test_a_stale_change_is_refused(alice, vision):
    row = saved(alice, vision)
    template_update(template=row, actor=alice, version=1, description="better", limits=LIMITS)
    with pytest.raises(Refused, match="version_stale"):
        template_update(template=row, actor=alice, version=1, description="worse", limits=LIMITS)
    row.refresh_from_db()
    assert (row.description, row.version) == ("better", 2)


def test_a_deleted_template_leaves_its_jobs(alice, vision):
    a_node()
    row = saved(alice, vision)
    a_job(alice, vision)
    template_delete(template=row, actor=alice)
    assert Job.objects.count() == 1
    assert AuditEntry.objects.first().action == "template_delete"


def test_the_page_saves_yaml_and_keeps_what_was_typed_when_it_is_wrong(alice, vision):
    client = as_(alice)
    body = {"name": "Train", "description": "two GPUs", "project": "vision"}
    text = "image: pytorch:2\ncommand: [python, train.py]\ndevice: {gpus: 2}\n"
    assert client.post("/templates/new", body | {"request": text}).status_code == 302
    row = Template.objects.get()
    assert row.request["command"] == ["python", "train.py"]
    for wrong in (
        "a: [",
        "- just\n- a list",
        "a: &x 1\nb: *x",
        "device: {gpus: 99999}",
        "!!python/x",
    ):
        answer = client.post("/templates/new", body | {"name": "Other", "request": wrong})
        assert answer.status_code == 400, wrong
        assert 'id="request-error"' in answer.content.decode()
    assert Template.objects.count() == 1


def test_a_stale_page_shows_both_versions(alice, vision):
    row = saved(alice, vision)
    client = as_(alice)
    page = client.get(f"/templates/{row.pk}/").content.decode()
    assert "tessera-example:latest" in page
    template_update(template=row, actor=alice, description="theirs", limits=LIMITS)
    body = {"name": "Train", "description": "mine", "version": "1"}
    body["request"] = "image: mine\ndevice: {gpus: 1}\n"
    answer = client.post(f"/templates/{row.pk}/", body)
    assert answer.status_code == 412
    page = answer.content.decode()
    assert "theirs" in page and 'value="mine"' in page and "image: mine" in page


def test_foreign_templates_have_no_page(alice, vision):
    eve = a_user("eve")
    row = saved(eve, a_project("other", eve))
    assert as_(alice).get(f"/templates/{row.pk}/").status_code == 404
    assert as_(alice).post(f"/templates/{row.pk}/", {"step": "delete"}).status_code == 404
    assert Template.objects.exists()


def test_an_image_that_is_not_listed_is_refused_with_the_list(alice, vision, root):
    a_node()
    policy = {"project": vision, "actor": root, "rule": ImageRule.LISTED, "version": 0}
    image_policy_set(patterns=["registry/pytorch:2.*"], **policy)
    with pytest.raises(Refused, match="image_not_listed") as refused:
        a_job(alice, vision, image="tessera-example:latest")
    assert refused.value.field == "image" and "registry/pytorch:2.*" in refused.value.sentence
    assert a_job(alice, vision, image="registry/pytorch:2.7").pk
    other = a_project("other", alice)
    assert a_job(alice, other, image="tessera-example:latest").pk
    line = AuditEntry.objects.get(action="image_policy_set")
    assert line.after == {"rule": "listed", "patterns": ["registry/pytorch:2.*"]}


def test_any_image_may_be_used_again_and_what_waits_goes_on(alice, vision, root):
    a_node()
    job = a_job(alice, vision)
    given = {"project": vision, "actor": root, "version": None}
    image_policy_set(rule=ImageRule.LISTED, patterns=["x"], **given)
    job.refresh_from_db()
    assert job.status == "queued"
    image_policy_set(rule=ImageRule.ANY, patterns=["x"], **given)
    assert a_job(alice, vision).pk


@pytest.mark.parametrize(
    "patterns", [[], ["a b"], ["<x>"], ["a" * 256], ["*.example/*"], [f"i{n}" for n in range(101)]]
)
def test_a_list_that_makes_no_sense_is_refused(vision, root, patterns):
    with pytest.raises(Refused):
        image_policy_set(
            project=vision, actor=root, rule=ImageRule.LISTED, patterns=patterns, version=0
        )
    assert not ImagePolicy.objects.exists()


def test_only_platform_admins_list_images(alice, vision, root):
    Membership.objects.filter(user=alice).update(role=Role.ADMIN)
    assert as_(alice).get("/console/images/vision/").status_code == 404
    with pytest.raises(Refused, match="forbidden"):
        image_policy_set(project=vision, actor=alice, rule=ImageRule.ANY, patterns=[], version=None)
    body = {"rule": "listed", "patterns": "a:*\nb", "version": "0"}
    assert as_(root).post("/console/images/vision/", body).status_code == 302
    assert ImagePolicy.objects.get().patterns == ["a:*", "b"]
    stale = as_(root).post("/console/images/vision/", body | {"patterns": "c"})
    assert stale.status_code == 412
    assert ">c</textarea>" in stale.content.decode() and "a:*\nb\n</pre>" in stale.content.decode()
    assert "listed only" in as_(root).get("/console/images/").content.decode()
