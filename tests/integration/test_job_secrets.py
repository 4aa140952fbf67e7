"""Secrets of users and projects: sealed, scoped, given to the node of the job alone. A job whose
secret was deleted waits, and loses nothing."""

from dataclasses import replace

import pytest
from django.utils import timezone

from agents.contract.documents import ReplicaState
from agents.contract.job_secrets import SECRETS_PATH, SecretForm
from portal.accounts.models import Role
from portal.audit.models import AuditEntry
from portal.desired.services import node_drive
from portal.errors import Refused
from portal.job_secrets.models import JobSecret
from portal.job_secrets.services import secret_delete, secret_set
from portal.jobs.models import Attempt, Replica
from scheduler.core.model.states import JobStatus
from scheduler.tasks import plan_once
from tests.support.agent_calls import an_agent, run
from tests.support.replica_rows import a_replica
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)

VALUE, OTHER = "canary-0123456789", "another-canary-9876"
WHOLE = {"device": {"gpus": 1}}


def of_project(admin, home, name="HF_TOKEN", value=VALUE):
    return secret_set(actor=admin, project=home, name=name, value=value)


@pytest.fixture
def vision():
    """A project with an admin and a member."""
    ada, mia = a_user("ada"), a_user("mia")
    home = a_project("vision", ada, role=Role.ADMIN)
    home.memberships.create(user=mia, role=Role.MEMBER)
    return home, ada, mia


def call_secrets(agent, replica, path=SECRETS_PATH, **headers):
    answers = []

    async def scenario(client):
        await agent.hello(client)
        address = path.format(replica=replica)
        answers.append(await client.post(address, headers=agent.headers | headers))

    run(scenario)
    return answers[0]


def a_replica_with(agent, *secrets):
    replica = a_replica(agent.node)
    job = replica.attempt.job
    request = a_job_request(job, secrets)
    type(job).objects.filter(pk=job.pk).update(request=request)
    return replica


def a_job_request(job, secrets):
    return {
        "project": job.project.slug,
        "name": "j",
        "image": "i",
        "command": ["true"],
        "device": {"gpus": 1},
        "secrets": list(secrets),
    }


def test_the_replicas_of_an_attempt_get_one_key_and_nothing_has_it_stored():
    agent = an_agent()
    keys = []
    for replicas, launcher in ((2, "openmpi"), (2, "openmpi"), (2, "torchrun"), (1, "openmpi")):
        replica = a_replica(agent.node)
        job = replica.attempt.job
        request = a_job_request(job, ()) | {"launcher": launcher, "replicas": replicas}
        type(job).objects.filter(pk=job.pk).update(request=request)
        answer = call_secrets(agent, replica.pk).json()
        assert call_secrets(agent, replica.pk).json() == answer
        keys.append([each["value"] for each in answer["secrets"]])
    first, second, *none = keys
    assert len(first[0]) == 64 and first != second
    assert none == [[], []]
    assert first[0] not in str(list(Attempt.objects.values()))


def test_a_value_is_sealed_and_neither_rows_nor_audit_lines_have_it(vision):
    home, ada, _ = vision
    row = of_project(ada, home)
    assert VALUE not in str(JobSecret.objects.values().get(pk=row.pk))
    of_project(ada, home, value=OTHER)
    secret_delete(actor=ada, project=home, name="HF_TOKEN")
    lines = list(AuditEntry.objects.filter(noun="secret").order_by("pk").values())
    assert [line["action"] for line in lines] == ["secret_set", "secret_set", "secret_delete"]
    assert VALUE not in str(lines) and OTHER not in str(lines)


def test_only_project_admins_change_secrets_of_a_project(vision):
    home, ada, mia = vision
    with pytest.raises(Refused, match="Only admins"):
        of_project(mia, home)
    of_project(ada, home)
    with pytest.raises(Refused, match="Only admins"):
        secret_delete(actor=mia, project=home, name="HF_TOKEN")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("hf token", VALUE, "letters, digits"),
        ("9LIVES", VALUE, "letters, digits"),
        ("x" * 65, VALUE, "1 to 64"),
        ("LD_PRELOAD", VALUE, "set by Tessera"),
        ("TESSERA_KEY", VALUE, "set by Tessera"),
        ("HF_TOKEN", "short", "at least 8"),
        ("HF_TOKEN", "a\0" * 8, "without NUL"),
        ("HF_TOKEN", "x" * 65_537, "64 KiB"),
        ("HF_TOKEN", "\ud800" * 8, "UTF-8"),
    ],
)
def test_what_cannot_be_a_secret_is_refused_with_a_sentence(name, value, why):
    with pytest.raises(Refused, match=why):
        secret_set(actor=a_user(), name=name, value=value)


def test_a_submit_names_secrets_of_its_user_and_project_and_no_others(vision):
    home, ada, mia = vision
    of_project(ada, home)
    secret_set(actor=ada, name="MINE", value=VALUE)
    of_project(ada, a_project("speech", ada, role=Role.ADMIN), name="ELSEWHERE")
    a_job(ada, home, secrets=["MINE", {"name": "HF_TOKEN", "as": "env"}])
    a_job(mia, home, secrets=["HF_TOKEN"])
    for name in ("MINE", "ELSEWHERE", "NOWHERE"):
        with pytest.raises(Refused, match=f"no secret {name}") as refused:
            a_job(mia, home, secrets=[name])
        assert (refused.value.code, refused.value.field) == ("secret_unknown", "secrets")


def test_a_document_has_names_and_the_call_has_values(vision):
    home, ada, _ = vision
    of_project(ada, home, "HF_TOKEN")
    of_project(ada, home, "WANDB_API_KEY", OTHER)
    a_job(ada, home, **WHOLE, secrets=["HF_TOKEN", "WANDB_API_KEY:env"])
    node = a_node()
    settle(node, rounds=2)
    (replica,) = node.hear().replicas
    forms = {secret.name: secret.form for secret in replica.secrets}
    assert forms == {"HF_TOKEN": SecretForm.FILE, "WANDB_API_KEY": SecretForm.ENV}
    assert VALUE not in str(node.row.desired) and OTHER not in str(node.row.desired)


def test_the_node_of_a_replica_gets_the_values_that_its_job_names(vision):
    agent = an_agent()
    replica = a_replica_with(agent, "HF_TOKEN", "OWN:env", "GONE")
    job = replica.attempt.job
    root = a_user("root", is_superuser=True)
    secret_set(actor=root, project=job.project, name="HF_TOKEN", value=VALUE)
    secret_set(actor=root, project=job.project, name="OWN", value="of the project")
    secret_set(actor=job.owner, name="OWN", value=OTHER)
    secret_set(actor=job.owner, name="UNNAMED", value="not for this job")
    answer = call_secrets(agent, replica.pk).json()
    values = {secret["name"]: secret["value"] for secret in answer["secrets"]}
    assert values == {"HF_TOKEN": VALUE, "OWN": OTHER}
    assert answer["missing"] == ["GONE"]
    used = JobSecret.objects.exclude(used_at=None)
    assert sorted((row.name, row.user_id) for row in used) == [
        ("HF_TOKEN", None),
        ("OWN", job.owner_id),
    ]


def test_no_other_node_gets_them_and_neither_does_a_node_after_the_end(vision):
    agent, other = an_agent(), an_agent()
    replica = a_replica_with(agent, "HF_TOKEN")
    secret_set(actor=replica.attempt.job.owner, name="HF_TOKEN", value=VALUE)
    assert call_secrets(other, replica.pk).json()["error"]["code"] == "replica_unknown"
    assert call_secrets(agent, "no-uuid").json()["error"]["code"] == "replica_unknown"
    assert call_secrets(agent, replica.pk, Authorization="Agent x").status_code == 401
    Attempt.objects.filter(pk=replica.attempt_id).update(ended_at=timezone.now())
    refused = call_secrets(agent, replica.pk)
    assert (refused.status_code, VALUE in refused.text) == (404, False)
    Attempt.objects.filter(pk=replica.attempt_id).update(ended_at=None)
    Replica.objects.filter(pk=replica.pk).update(desired_state="gone")
    assert call_secrets(agent, replica.pk).status_code == 404


def test_a_job_whose_secret_was_deleted_waits_with_a_reason_and_starts_when_it_is_set(vision):
    home, ada, mia = vision
    of_project(ada, home)
    job, other = a_job(mia, home, **WHOLE, secrets=["HF_TOKEN"]), a_job(mia, home, **WHOLE)
    secret_delete(actor=ada, project=home, name="HF_TOKEN")
    node = a_node(gpus=2)
    settle(node, rounds=2)
    job.refresh_from_db()
    other.refresh_from_db()
    assert other.status != JobStatus.QUEUED
    assert job.status == JobStatus.QUEUED
    assert job.reason["code"] == "secret_missing"
    assert "HF_TOKEN" in job.reason["sentence"] and job.reason["evidence"] == {"secret": "HF_TOKEN"}
    secret_set(actor=mia, name="HF_TOKEN", value=OTHER)
    settle(node, rounds=2)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING


def test_one_that_was_deleted_just_before_the_start_spends_no_retry(vision):
    home, ada, mia = vision
    of_project(ada, home)
    job = a_job(mia, home, **WHOLE, secrets=["HF_TOKEN"])
    node = a_node()
    plan_once()
    secret_delete(actor=ada, project=home, name="HF_TOKEN")
    settle_failed(node, "secret_missing", "the secret HF_TOKEN was deleted")
    plan_once()
    job.refresh_from_db()
    assert (job.status, job.reason["code"]) == (JobStatus.QUEUED, "secret_missing")
    assert (job.user_retries_left, job.infrastructure_retries_left) == (0, 3)
    of_project(ada, home)
    settle(node)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING


def settle_failed(node, code, sentence):
    """The node reports that what it prepares has failed."""
    node_drive(node_id=node.row.pk)
    node.carry_out()
    failed = {"state": ReplicaState.FAILED, "code": code, "sentence": sentence}
    node.replicas = {key: replace(seen, **failed) for key, seen in node.replicas.items()}
    node.report()
    node_drive(node_id=node.row.pk)
    node.obey()
