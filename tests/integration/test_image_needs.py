"""What images need: learned from a node's report, kept for a week, and followed by the planner."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.contract.documents import ReplicaState
from agents.contract.image_needs import IMAGE_UNFIT, ImageNeeds, NodeFit, unfit_message
from agents.contract.wire_messages import to_wire
from portal.desired.services import node_drive
from portal.diagnosis.services import diagnoses_refresh
from portal.images.models import ImageNeed
from portal.images.needs_cache import image_needs_refresh, needs_of
from scheduler.core.model.states import JobStatus
from scheduler.tasks import plan_once
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)

NEEDS, OTHER = ImageNeeds(("cuda>=12.4",)), ImageNeeds(("cuda>=99",))
IMAGE = "registry.example/team/new-cuda:1"
OLD, NEW = NodeFit("12.2", "535.104", "amd64"), NodeFit("13.0", "580.65", "amd64")


def refuse(node):
    """As an agent does that has pulled the image."""
    node_drive(node_id=node.row.pk)
    node.carry_out()
    message = unfit_message(IMAGE, NEEDS, node.fit)
    failed = {
        "state": ReplicaState.FAILED,
        "code": IMAGE_UNFIT,
        "sentence": message.text,
        "message": to_wire(message),
        "image_needs": NEEDS,
    }
    node.replicas = {key: replace(seen, **failed) for key, seen in node.replicas.items()}
    node.report()
    node_drive(node_id=node.row.pk)
    node.obey()


def test_a_job_that_one_node_refused_waits_for_the_driver_and_starts_where_it_is():
    olga = a_user("olga")
    job = a_job(olga, a_project("vision", olga), device={"gpus": 1}, image=IMAGE)
    old = a_node("old")
    old.fit = OLD
    old.report()
    plan_once()
    refuse(old)
    plan_once()
    job.refresh_from_db()
    assert (job.status, job.reason["code"]) == (JobStatus.QUEUED, "image")
    assert "old has CUDA 12.2" in job.reason["sentence"]
    assert "a driver for CUDA 12.4, which is 550 or newer" in job.reason["unblocks"]
    new = a_node("new")
    new.fit = NEW
    new.report()
    settle(old, new, rounds=3)
    job.refresh_from_db()
    assert job.status == JobStatus.RUNNING
    assert job.attempts.latest("number").replicas.get().node == new.row


def test_the_refusal_is_the_cause_of_a_job_that_has_no_retry_left():
    olga = a_user("olga")
    job = a_job(olga, a_project("vision", olga), device={"gpus": 1}, image=IMAGE)
    job.infrastructure_retries_left = 0
    job.save()
    old = a_node("old")
    old.fit = OLD
    old.report()
    plan_once()
    refuse(old)
    diagnoses_refresh()
    job.refresh_from_db()
    assert (job.status, job.failure_cause) == (JobStatus.FAILED, "driver_too_old")
    assert "needs a driver for CUDA 12.4, which is 550 or newer" in str(job.diagnosis)


def test_a_node_says_it_of_the_images_of_its_own_replicas_once_each():
    olga = a_user("olga")
    a_job(olga, a_project("vision", olga), device={"gpus": 1}, image=IMAGE)
    node, other = a_node("a"), a_node("b", gpus=0)
    settle(node, rounds=2)
    node.replicas = {k: replace(seen, image_needs=NEEDS) for k, seen in node.replicas.items()}
    with CaptureQueriesContext(connection) as before:
        node.report()
    with CaptureQueriesContext(connection) as after:
        node.report()
    rows = "images_imageneed"
    assert sum(f'INSERT INTO "{rows}"' in query["sql"] for query in before) == 1
    assert not any(rows in query["sql"] for query in after)
    row = ImageNeed.objects.get()
    assert (row.image, row.requirements) == (IMAGE, ["cuda>=12.4"])
    other.replicas = {k: replace(s, image_needs=OTHER) for k, s in node.replicas.items()}
    other.report()
    row.refresh_from_db()
    assert row.requirements == ["cuda>=12.4"]


def test_what_no_node_has_seen_for_a_week_is_forgotten():
    now = timezone.now()
    ImageNeed.objects.create(image=IMAGE, requirements=["cuda>=12.4"], seen_at=now)
    image_needs_refresh(now)
    assert needs_of(IMAGE) == NEEDS and not needs_of("another:1")
    image_needs_refresh(now + timedelta(days=8))
    assert not needs_of(IMAGE)
