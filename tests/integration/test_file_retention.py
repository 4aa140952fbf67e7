"""Files of ended jobs are removed after their project's time; contents once no tree has them."""

from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from agents.contract.file_transfer import TreeKind
from portal.audit.models import AuditEntry
from portal.desired.documents import compile_desired
from portal.errors import Refused
from portal.files.limits import StoredLimits
from portal.files.models import ProjectFiles, StoredFile, Tree
from portal.files.removal import code_remove, may_remove, removal_at, tree_remove
from portal.files.services import code_keep, contents_remove, trees_remove
from portal.jobs.models import Attempt, Job
from portal.retention.files import files_remove, files_use
from portal.retention.limits import RetentionLimits
from portal.storage.models import Segment
from portal.storage.segments import delete_forgotten
from portal.storage.stores import current_store
from scheduler.tasks import plan_once
from tests.support.agent_calls import an_agent
from tests.support.file_rows import a_code_tree, a_tree
from tests.support.replica_rows import a_replica
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db(transaction=True)
LIMITS = RetentionLimits(days=30, mib=0)


def ended(replica, days):
    at = timezone.now() - timedelta(days=days)
    Job.objects.filter(pk=replica.attempt.job_id).update(status="succeeded", finished_at=at)


def stored(replica):
    return ProjectFiles.objects.get(pk=replica.attempt.job.project_id).stored_bytes


def test_files_go_after_the_days_of_their_project_and_their_bytes_are_given_back():
    node = an_agent().node
    old, young, own, running = (a_replica(node) for _ in range(4))
    for replica in (old, young, own, running):
        a_tree(replica, {"out": b"12345"})
    ended(old, 31), ended(young, 29), ended(own, 31)
    ProjectFiles.objects.filter(pk=own.attempt.job.project_id).update(kept_days=90)
    code = a_code_tree(old.attempt.job.project_id, {"train.py": b"12345"}, "olga")
    now = timezone.now()
    assert files_remove(limits=LIMITS, now=now) == 1
    assert Tree.objects.get(removed_at__isnull=False).replica == old
    assert stored(old) == 5, "the code has the same content"
    trees_remove(trees=[code], now=now)
    files_remove(limits=LIMITS, now=now)
    assert [stored(one) for one in (old, young, own, running)] == [0, 5, 5, 5]
    assert (delete_forgotten(10), Segment.objects.count()) == (1, 3)
    use = files_use(LIMITS)
    assert (use.count, use.bytes) == (3, 15)


def test_a_content_that_no_tree_gets_is_removed_after_a_day():
    replica = a_replica(an_agent().node)
    tree = a_tree(replica, {"out": b"used"})
    StoredFile.objects.create(
        project_id=replica.attempt.job.project_id,
        sha256="a" * 64,
        size=9,
        stream="files/1/half",
        removable_at=timezone.now() + timedelta(hours=24),
    )
    assert contents_remove(now=timezone.now(), limit=10) == 0
    assert contents_remove(now=timezone.now() + timedelta(hours=25), limit=10) == 1
    assert tree.entries.get().file.is_complete


def test_the_objects_of_a_removed_file_are_gone_from_the_store():
    replica = a_replica(an_agent().node)
    tree = a_tree(replica, {"out": b"x"})
    stream = StoredFile.objects.get().stream
    assert len(current_store().names(stream)) == 1
    trees_remove(trees=[tree], now=timezone.now())
    contents_remove(now=timezone.now(), limit=10)
    delete_forgotten(10)
    assert current_store().names(stream) == []


def test_a_later_output_of_a_replica_replaces_the_one_before():
    replica = a_replica(an_agent().node)
    a_tree(replica, {"out": b"half"})
    whole = a_tree(replica, {"out": b"whole"})
    assert list(Tree.objects.with_files()) == [whole]


def test_the_document_of_a_later_attempt_says_that_there_is_a_checkpoint():
    node, alice = a_node(), a_user()
    job = a_job(alice, a_project("", alice, gpus=8), device={"gpus": 1})
    plan_once()
    (attempt,) = job.attempts.all()
    saved = [compile_desired(node.row).replicas[0].has_checkpoint]
    Attempt.objects.filter(pk=attempt.pk).update(number=2)
    saved.append(compile_desired(node.row).replicas[0].has_checkpoint)
    a_tree(attempt.replicas.get(), {"saved.json": b"{}"}, TreeKind.CHECKPOINT, step=3)
    saved.append(compile_desired(node.row).replicas[0].has_checkpoint)
    assert saved == [False, False, True]


def code_job(code, status, days=0):
    """A job that runs the code, and ended so long ago."""
    at = timezone.now() - timedelta(days=days) if days else None
    project = code.project
    owner = a_user(f"u{Job.objects.count()}-{status}")
    return Job.objects.create(
        project=project,
        owner=owner,
        name="j",
        kind="batch",
        image="i",
        request={"code": str(code.pk)},
        replica_count=1,
        cpu_milli=1000,
        memory_mib=1024,
        time_limit_seconds=60,
        status=status,
        finished_at=at,
    )


def test_code_goes_some_days_after_the_last_job_that_used_it():
    project = a_project("vision")
    names = ("unused", "new", "old", "young", "waiting")
    code = {name: a_code_tree(project.pk, {name: name.encode()}, "olga") for name in names}
    sent = timezone.now() - timedelta(days=40)
    Tree.objects.exclude(pk=code["new"].pk).update(created_at=sent)
    code_job(code["old"], "succeeded", 35)
    code_job(code["young"], "failed", 35)
    code_job(code["young"], "succeeded", 29)
    code_job(code["waiting"], "succeeded", 35)
    code_job(code["waiting"], "queued")
    limits = StoredLimits(0, 100, 30)
    removal = {name: removal_at(tree, limits) for name, tree in code.items()}
    assert removal["waiting"] is None
    assert (removal["new"] - timezone.now()).days == 29
    assert (removal["young"] - timezone.now()).days == 0
    assert files_remove(limits=LIMITS, now=timezone.now()) == 2
    gone = Tree.objects.filter(removed_at__isnull=False)
    assert {tree.pk for tree in gone} == {code["unused"].pk, code["old"].pk}
    # Between the look and the lock, a job came.
    assert code_remove(trees=[code["waiting"]], cutoff=timezone.now()) == 0


def test_a_checkpoint_stays_while_a_job_that_goes_on_from_it_waits():
    replica = a_replica(an_agent().node)
    tree = a_tree(replica, {"saved.json": b"{}"}, TreeKind.CHECKPOINT, step=1)
    ended(replica, 40)
    later = code_job(tree, "queued")
    Job.objects.filter(pk=later.pk).update(request={}, resumes=replica.attempt.job)
    assert files_remove(limits=LIMITS, now=timezone.now()) == 0
    with pytest.raises(Refused, match=later.label):
        tree_remove(tree=tree, actor=replica.attempt.job.owner)
    Job.objects.filter(pk=later.pk).update(status="cancelled")
    assert files_remove(limits=LIMITS, now=timezone.now()) == 1


def test_people_remove_their_own_files_unless_a_job_needs_them():
    project = a_project("vision")
    olga, ada = a_user("olga"), a_user("ada")
    code = a_code_tree(project.pk, {"a.py": b"a"}, "olga")
    job = code_job(code, "running")
    assert (may_remove(olga, code), may_remove(ada, code)) == (True, False)
    with pytest.raises(Refused, match="Only who sent"):
        tree_remove(tree=code, actor=ada)
    with pytest.raises(Refused, match=job.label):
        tree_remove(tree=code, actor=olga)
    Job.objects.update(status="succeeded", finished_at=timezone.now())
    tree_remove(tree=code, actor=olga)
    with pytest.raises(Refused, match="were removed"):
        tree_remove(tree=code, actor=olga)
    (line,) = AuditEntry.objects.filter(action="files_remove")
    assert (line.actor, line.noun_id, line.before["files"]) == ("olga", str(code.pk), 1)
    with pytest.raises(Refused, match="removed while it was submitted"), transaction.atomic():
        code_keep(code=[str(code.pk), ""])
