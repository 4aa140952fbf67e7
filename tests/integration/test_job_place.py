"""A job's page shows where it runs, how long it still may, and how far its start is."""

import re
from datetime import timedelta
from itertools import pairwise

import pytest
from django.utils import timezone

from agents.contract.documents import ObservedReplica, ReplicaState
from agents.contract.pulls import ObservedPull
from portal.allocations.models import Allocation
from portal.allocations.selectors import attempts_of
from portal.desired.services import node_drive
from portal.inventory.models import Slice
from portal.jobs.models import Job
from portal.web.job.place import job_place
from portal.web.job.start_progress import start_progress
from portal.web.job.time_gauge import time_gauge
from scheduler.tasks import plan_once
from tests.support.event_stream import first_event
from tests.support.rows import a_job, a_node, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)


def start(olga, team, *nodes, **fields) -> Job:
    job = a_job(olga, team, **fields)
    settle(*nodes)
    job.refresh_from_db()
    assert job.status == "running"
    return job


def replicas_of(job: Job):
    return list(attempts_of(job)[-1].replicas.all())


def place_of(user, job: Job, *, is_final: bool = False):
    return job_place(user, job, replicas_of(job), is_final=is_final)


def test_a_gang_on_neighbouring_gpus_is_one_block_with_joints(olga, team):
    node = a_node("n1", gpus=4)
    job = start(olga, team, node, device={"gpus": 3})
    for is_final in (False, True):
        ((name, row),) = [
            (drawn.name, row)
            for drawn in place_of(olga, job, is_final=is_final).nodes
            for row in drawn.rows
        ]
        assert (name, row.name) == ("n1", "GPU 0 to 2")
        (block,) = row.blocks
        assert (block.part.is_own, block.part.rows, len(block.joints)) == (True, 3, 2)


def test_gpus_apart_are_blocks_apart(olga, team):
    node = a_node("n1", gpus=3)
    job = start(olga, team, node, device={"gpus": 2})
    held = list(Allocation.objects.order_by("slice__gpu__index"))
    gpus = list(Slice.objects.order_by("gpu__index").values_list("gpu__node__gpus", flat=True))
    free = next(pk for pk in set(gpus) - {row.slice.gpu_id for row in held})
    Slice.objects.filter(pk=held[1].slice_id).update(gpu=free)
    rows = place_of(olga, job, is_final=True).nodes[0].rows
    assert [row.name for row in rows] == ["GPU 0", "GPU 2"]


def test_a_slice_lies_where_it_is_and_its_neighbours_are_not_marked(olga, team):
    node = a_node("n1")
    start(olga, team, node, device={"mig": "3g.71gb"})
    job = start(olga, team, node, device={"mig": "1g.18gb"})
    (row,) = place_of(olga, job).nodes[0].rows
    own, others = ([b.part for b in row.blocks if b.part.is_own is each] for each in (True, False))
    assert [part.label for part in own] == ["1g.18gb"]
    assert others and not any(part.label for part in others)
    ends = sorted((block.x, block.x + block.width) for block in row.blocks)
    assert all(a[1] <= b[0] for a, b in pairwise(ends)), "nothing overlaps"


def test_the_page_has_the_drawing_in_words_and_as_a_list(client, olga, team):
    node = a_node("n1", gpus=2)
    job = start(olga, team, node, device={"gpus": 2})
    client.force_login(olga)
    text = client.get(f"/jobs/{job.label}/").content.decode()
    assert 'role="img" aria-label="n1, GPU 0 to 1: whole"' in text
    assert 'href="/cluster/n1/"' in text


def test_a_job_without_a_place_says_so(client, olga, team):
    start(olga, team, a_node("n1"), device={"gpus": 1})
    job = a_job(olga, team, device={"gpus": 1})
    client.force_login(olga)
    text = client.get(f"/jobs/{job.label}/").content.decode()
    assert "Not placed yet" in text
    Job.objects.filter(pk=job.pk).update(status="cancelled", finished_at=timezone.now())
    text = client.get(f"/jobs/{job.label}/").content.decode()
    assert "It ended before it was placed" in text
    assert "The job never ran, so it has no log" in text


def test_the_gauge_of_a_running_job_and_who_may_extend_it(client, olga, team):
    node = a_node("n1")
    job = start(olga, team, node, device={"gpus": 1}, time_limit="2h")
    now = timezone.now()
    job.deadline_at = now + timedelta(minutes=20)
    job.save(update_fields=["deadline_at"])
    gauge = time_gauge(job, now)
    assert gauge is not None
    assert (gauge.percent, gauge.ends_soon) == (83, True)
    assert gauge.left == "20\N{NO-BREAK SPACE}min"
    client.force_login(olga)
    assert "Extend by 1 h" in client.get(f"/jobs/{job.label}/").content.decode()
    otto = a_user("otto")
    team.memberships.create(user=otto, role="member")
    client.force_login(otto)
    text = client.get(f"/jobs/{job.label}/").content.decode()
    assert "Ends soon" in text and "Extend by 1 h" not in text
    Job.objects.filter(pk=job.pk).update(status="stopping")
    job.refresh_from_db()
    assert time_gauge(job, now) is None


def test_the_tab_is_titled_by_the_state_also_by_the_stream(client, olga, team):
    job = start(olga, team, a_node("n1"), name="vit", device={"gpus": 1})
    client.force_login(olga)
    title = f"● Running · {job.label} vit · Tessera"
    assert f"<title>{title}</title>" in client.get(f"/jobs/{job.label}/").content.decode()
    event = first_event(olga, f"/jobs/{job.label}/stream?tab=spec")
    assert f'data-tab-title="{title}"' in event.data
    assert "csrfmiddlewaretoken" not in event.data


def report(node, pull: ObservedPull) -> None:
    for wanted in node.hear().replicas:
        node.replicas[wanted.id] = ObservedReplica(
            id=wanted.id,
            job=wanted.job,
            attempt=wanted.attempt,
            rank=wanted.rank,
            fence=wanted.fence,
            state=ReplicaState.PREPARING,
            pull=pull,
        )
    node.report()


def test_the_timeline_says_how_far_carving_and_pulling_are(client, olga, team):
    node = a_node("n1", gpus=2)
    job = a_job(olga, team, replicas=2, topology="any", device={"mig": "2g.35gb"})
    plan_once()
    job.refresh_from_db()
    sentences = [line.sentence for line in start_progress(job, replicas_of(job))]
    assert sentences == ["0 of 2 slices carved"]
    Slice.objects.filter(pk=Slice.objects.values("pk")[:1]).update(status="ready")
    (carving,) = start_progress(job, replicas_of(job))
    assert (carving.sentence, carving.percent) == ("1 of 2 slices carved", 50)
    node_drive(node_id=node.row.pk)
    report(node, ObservedPull(3, 12, 2 << 30, 8 << 30))
    job.refresh_from_db()
    pulling = start_progress(job, replicas_of(job))[-1]
    assert (pulling.sentence, pulling.percent) == ("Image: 2.0\xa0GiB of 8.0\xa0GiB", 25)
    client.force_login(olga)
    timeline = client.get(f"/jobs/{job.label}/").content.decode().partition('id="tl"')[2]
    assert re.search(
        r'Image: 2\.0.{1,6}GiB of 8\.0.{1,6}GiB<progress max="100" value="25"', timeline
    )


def test_the_page_hears_of_each_carved_slice(olga, team):
    a_node("n1", gpus=2)
    job = a_job(olga, team, replicas=2, topology="any", device={"mig": "2g.35gb"})
    plan_once()
    Slice.objects.filter(pk=Slice.objects.values("pk")[:1]).update(status="ready")
    assert "1 of 2 slices carved" in first_event(olga, f"/jobs/{job.label}/stream?tab=spec").data
