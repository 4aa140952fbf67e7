"""A backup, three more jobs and a restore: the same on SQLite and on PostgreSQL."""

from io import StringIO
from pathlib import Path

from django.core.management import call_command

from portal.agentapi.node_report import node_report
from portal.allocations.holding import held_replicas, node_allow_mass_removal
from portal.audit.models import Event
from portal.desired.services import node_drive
from portal.inventory.models import Node
from portal.job_logs.storage import read_log
from portal.jobs.models import Attempt, Job, Replica
from tests.support.logs import write_log
from tests.support.rows import HonestNode, a_job, a_node, a_project, a_user, settle


def restore(archive: Path) -> str:
    out = StringIO()
    call_command("restore", str(archive), "--yes-replace", stdout=out, stderr=out)
    return out.getvalue()


def report_as_ahead(node: HonestNode, applied: int) -> None:
    """Its report with a revision that the restored database may never have issued."""
    node_report(node.row.pk, node.observed(), applied)


def append_log(replica: Replica, offset: int, data: bytes) -> None:
    write_log(replica, offset, data)
    Replica.objects.filter(pk=replica.pk).update(log_bytes=offset + len(data))


def assert_three_more_jobs_and_a_restore(archive: Path) -> None:
    alice, node = a_user("alice"), a_node("gpu-1", gpus=8)
    home = a_project("vision", alice)
    first = a_job(alice, home)
    settle(node)
    replica = Replica.objects.get()
    append_log(replica, 0, b"one\ntwo\n")
    call_command("backup", str(archive), stdout=StringIO())
    assert archive.stat().st_mode & 0o777 == 0o600

    append_log(replica, 8, b"three\n")
    more = [a_job(alice, home) for _ in range(3)]
    settle(node)
    running = dict(node.replicas)
    assert len(running) == 4
    numbers, fence = {job.pk for job in more}, max(Attempt.objects.values_list("pk", flat=True))
    applied, epoch = Node.objects.get().revision, Node.objects.get().epoch

    assert "1 nodes have to report" in restore(archive)
    assert list(Job.objects.values_list("pk", flat=True)) == [first.pk]
    row = Node.objects.get()
    assert row.epoch > epoch and row.is_document_withheld
    report_as_ahead(node, applied)
    node_drive(node_id=node.row.pk)
    row = Node.objects.get()
    assert row.holding_since and row.is_document_withheld and row.revision > applied
    assert len(held_replicas(row)) == 3 and node.replicas == running, "nothing was killed"
    first.refresh_from_db()
    assert first.status == "running"

    later = a_job(alice, home)
    later.refresh_from_db()
    assert later.pk > max(numbers) and later.reason["code"] == "node_holding"

    node_allow_mass_removal(node=row, actor="root")
    node_drive(node_id=node.row.pk)
    settle(node)
    row, later = Node.objects.get(), Job.objects.get(pk=later.pk)
    assert (row.holding_since, row.restored_at, later.status) == (None, None, "running")
    assert str(replica.pk) in node.replicas and len(node.replicas) == 2, "none was doubled"
    assert Attempt.objects.get(job=later).fence > fence
    replica.refresh_from_db()
    assert read_log(replica, 0, 100) == b"one\ntwo\n"
    assert Event.objects.filter(code="mass_removal_allowed").count() == 1
