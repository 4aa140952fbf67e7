"""Code of a git repository: who fetches which commit, by which key, and where people read it."""

from dataclasses import replace

import pytest

from agents.contract.documents import ReplicaState
from agents.contract.git_source import DesiredGitCode
from agents.contract.job_secrets import SecretForm
from portal.desired.services import nodes_drive
from portal.files.selectors import code_tree_of
from portal.job_secrets.services import secret_set
from portal.jobs.models import Replica
from scheduler.core.model.states import JobStatus
from scheduler.core.request import InvalidRequest
from scheduler.tasks import plan_once
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db
SOURCE = "git+https://git.example/team/app.git@main"
FIRST, SECOND = "1" * 40, "2" * 40
GPU = {"device": {"gpus": 1}}


def a_fetching_node(commit=FIRST):
    node = a_node()
    node.git_hosts, node.commit = ("git.example",), commit
    node.report()
    return node


def a_git_job(**fields):
    alice = a_user()
    return a_job(alice, a_project("", alice), **GPU | {"code": SOURCE} | fields)


def commits(job):
    rows = Replica.objects.filter(attempt__job=job).order_by("attempt", "rank")
    return list(rows.values_list("code_commit", flat=True))


def node_of(rank, nodes):
    name = Replica.objects.get(rank=rank).node.name
    return next(node for node in nodes if node.row.name == name)


def test_its_node_is_told_the_repository_and_the_key_and_the_job_has_the_commit():
    alice = a_user()
    home = a_project("", alice)
    secret_set(actor=alice, name="DEPLOY", value="glpat-0123456789")
    job = a_job(alice, home, **GPU, code=SOURCE, secrets=["DEPLOY:git"])
    node = a_fetching_node()
    plan_once()
    nodes_drive(node_ids=[node.row.pk])
    (replica,) = node.hear().replicas
    assert (replica.code_tree, replica.code_git) == ("", DesiredGitCode(SOURCE, "", "DEPLOY"))
    assert [secret.form for secret in replica.secrets] == [SecretForm.GIT]
    assert "glpat" not in str(node.row.desired)
    settle(node)
    assert commits(job) == [FIRST]
    assert code_tree_of(job) is None, "the portal has no copy"


def test_a_job_waits_where_no_node_fetches_from_its_host():
    job, node = a_git_job(), a_node()
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.QUEUED
    assert "fetches no code from git.example" in job.reason["sentence"]
    node.git_hosts, node.commit = ("git.example",), FIRST
    node.report()
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING


def test_all_ranks_get_the_commit_of_rank_0_though_the_branch_moved():
    job = a_git_job(replicas=2)
    nodes = [a_fetching_node(FIRST), a_fetching_node(SECOND)]
    plan_once()
    nodes_drive(node_ids=[node.row.pk for node in nodes])
    first, other = node_of(0, nodes), node_of(1, nodes)
    other.obey()
    assert commits(job) == ["", ""]
    first.obey()
    assert commits(job) == [first.commit, ""]
    nodes_drive(node_ids=[other.row.pk])
    (wanted,) = other.hear().replicas
    assert wanted.code_git.commit == first.commit
    settle(*nodes)
    assert commits(job) == [first.commit] * 2
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING


def test_the_commit_of_rank_0_rings_the_nodes_of_the_others_without_a_sweep(monkeypatch):
    a_git_job(replicas=2)
    nodes = [a_fetching_node(), a_fetching_node()]
    plan_once()
    nodes_drive(node_ids=[node.row.pk for node in nodes])
    first, other = node_of(0, nodes), node_of(1, nodes)
    other.carry_out()
    rung = []
    monkeypatch.setattr("portal.jobs.lifecycle.ring_drive", rung.extend)
    first.obey()
    assert rung == [other.row.pk]
    first.report()
    assert rung == [other.row.pk], "once"


def test_a_later_attempt_gets_the_commit_of_the_first():
    job, node = a_git_job(retries={"user": 2}), a_fetching_node()
    settle(node)
    for _ in range(2):
        node.commit = SECOND
        node.finish(1)
        settle(node)
    assert commits(job) == [FIRST] * 3


def test_a_fetch_that_failed_is_a_cause_with_a_sentence(client):
    job, node = a_git_job(retries={"infrastructure": 0}), a_fetching_node(commit="")
    settle(node)
    why = "its code cannot be fetched from https://git.example/team/app.git: not found"
    failed = {"state": ReplicaState.FAILED, "code": "git_unfetched", "sentence": why}
    node.replicas = {key: replace(seen, **failed) for key, seen in node.replicas.items()}
    node.report()
    job.refresh_from_db()
    assert job.status == JobStatus.FAILED
    client.force_login(job.owner)
    assert why in client.get(f"/jobs/{job.label}/results").content.decode()


def test_page_and_rest_have_the_repository_and_the_commit(client):
    job, node = a_git_job(), a_fetching_node()
    settle(node)
    client.force_login(job.owner)
    (attempt,) = client.get(f"/api/v1/jobs/{job.label}").json()["attempts"]
    assert attempt["code_commit"] == attempt["replicas"][0]["code_commit"] == FIRST
    page = client.get(f"/jobs/{job.label}/").content.decode()
    assert SOURCE in page and FIRST in page
    assert FIRST in client.get(f"/jobs/{job.label}/results").content.decode()
    assert client.get(f"/jobs/{job.label}/files").status_code == 200
    assert (
        client.get(f"/request/?like={job.label}").content.decode().count(f'value="{SOURCE}"') == 1
    )


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"code": "git+https://127.0.0.1/a"}, "code", "not reached from nodes"),
        ({"code": "git+file:///etc"}, "code", "write git+https://"),
        ({"code": "git+ssh://git.example/a"}, "secrets", "deploy key"),
        ({"code": "", "secrets": ["K:git"]}, "secrets", "name one under code"),
        ({"secrets": ["K:git", "L:git"]}, "secrets", "one secret with :git"),
    ],
)
def test_what_cannot_be_fetched_is_refused_at_the_submit(fields, field, words):
    with pytest.raises(InvalidRequest) as refused:
        a_git_job(**fields)
    found = {error.field: error.sentence for error in refused.value.errors}
    assert words in found[field]


def test_a_secret_for_git_must_be_there():
    with pytest.raises(Exception, match="DEPLOY"):
        a_git_job(secrets=["DEPLOY:git"])


def test_the_form_takes_a_repository_beside_its_list(client):
    alice = a_user()
    home = a_project("", alice)
    client.force_login(alice)
    values = {
        "name": "git", "project": home.slug, "image": "team/app:1", "command": "python train.py",
        "amount": "gpus:H200", "gpus": "1", "replicas": "1", "preview": "1",
    }  # fmt: skip
    page = client.post("/request/", values | {"code_repository": SOURCE}).content.decode()
    assert f'value="{SOURCE}"' in page
    both = {"code": "8c5b0a3e-2f41-4a7d-9a63-0d9f3c1e7b52", "code_repository": SOURCE}
    assert "not both" in client.post("/request/", values | both).content.decode()
    page = client.post("/request/", values | {"code_repository": "https://h.example/a"})
    assert "git+https://h.example/a" in page.content.decode()
    page = client.post("/request/", values | {"code_repository": "train"}).content.decode()
    field = page[page.index('id="code_repository"') :].partition(">")[0]
    assert 'value="train"' in field and "aria-invalid" in field, "it stays where it was typed"
