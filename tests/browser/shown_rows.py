"""What pages show beyond the seeded cluster: a log, measurements, templates, webhooks, images."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from urllib.parse import urlencode
from uuid import uuid4

from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone

from agents.contract.codec import encode
from agents.contract.documents import ReplicaState, SliceKind
from agents.contract.job_metrics import SkippedCount, SkipReason
from agents.contract.pulls import ObservedPull, PullCause
from agents.contract.telemetry import GpuSample
from portal.accounts.models import Project, User
from portal.allocations.holding import HeldReplica
from portal.catalogue.models import ImageRule, Template
from portal.catalogue.services import image_policy_set, template_save
from portal.inventory.models import DisputedClaim, Gpu, Node
from portal.jobs.models import Attempt, Job, Replica
from portal.registries.services import registry_set
from portal.telemetry.job_samples import samples_record
from portal.volumes.services import VolumeValues, volume_create
from portal.webhooks.models import Delivery, Endpoint
from portal.webhooks.values import DeliveryStatus
from scheduler.core.model.states import JobStatus, ReplicaStatus
from scheduler.core.request import RequestLimits
from tests.browser.shown_files import code_of, files_of
from tests.support.job_metrics import metrics_report, series_points
from tests.support.logs import write_log

STEPS = 240
MINUTES = 35
WORK = {
    "image": "pytorch:2.9",
    "command": ["torchrun", "train.py", "--epochs", "90"],
    "cpu": 8,
    "memory": "64GiB",
    "time_limit": "12h",
}
TEMPLATES = (
    ("Train on one GPU", "ResNet and friends, with the data set mounted", {"gpus": 1}),
    ("Fine-tune on a node", "Eight GPUs joined by NVLink", {"gpus": 8}),
    ("Notebook on a slice", "Enough for a small model", {"mig": "2g.35gb"}),
)
# When, what, what became of it, and what was answered.
TOLD = (
    (3, "job.running", DeliveryStatus.DELIVERED, 200, ""),
    (26, "job.succeeded", DeliveryStatus.DELIVERED, 204, ""),
    (41, "job.failed", DeliveryStatus.FAILED, 503, "503 Service Unavailable"),
    (90, "test", DeliveryStatus.DELIVERED, 200, ""),
)


def shown(known: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Write it. Who looks at which address, by the name of a picture, beside the listed pages."""
    alice, admin = (User.objects.get(username=name) for name in ("alice", "admin"))
    vision = Project.objects.get(slug="vision")
    mine = Job.objects.filter(owner=alice, array=None).order_by("-pk")
    waits = mine.filter(status=JobStatus.QUEUED)[0]
    _log(known["job"])
    saved = files_of(known["job"])
    code = code_of(vision)
    _swept(known["array"])
    _registries(admin, vision)
    busy = _on_whole_gpus(alice)
    _measured(busy.node)
    compared = _reported(busy, mine)
    gang = _templates(admin, vision)
    _images(admin, vision)
    _volumes(admin, vision)
    hook = _webhook(alice, vision)
    failed = mine.filter(status=JobStatus.FAILED)[0]
    pulls = _image_pulls()
    _disputed_claim()
    held = _held_work()
    return {
        "request-answer": ("alice", f"{reverse('web:request')}?template={gang.pk}"),
        "web:job_metrics": ("alice", reverse("web:job_metrics", args=[busy.attempt.job.label])),
        "web:compare": ("alice", f"{reverse('web:compare')}?{compared}"),
        "job-files": ("alice", f"{reverse('web:job_files', args=[known['job']])}?tree={saved.pk}"),
        "job-scalars": (
            "alice",
            f"{reverse('web:job_files', args=[known['job']])}?tree={saved.pk}"
            "&file=runs/events.out.tfevents.1.node",
        ),
        "job-file-removal": (
            "alice",
            reverse("web:tree_remove", args=[known["job"], saved.pk]),
        ),
        "project-code-removal": (
            "admin",
            reverse("web:project_code_remove", args=[vision.slug, code.pk]),
        ),
        "job-waiting": ("alice", reverse("web:job", args=[waits.label])),
        "job-failed": ("alice", reverse("web:job", args=[failed.label])),
        "job-pulls": ("admin", reverse("web:job", args=[pulls.label])),
        "web:held_work": ("admin", reverse("web:held_work", args=[held.name])),
        "template": ("admin", reverse("web:template", args=[gang.pk])),
        "webhook": ("alice", reverse("web:webhook", args=[hook.uid])),
    }


def _log(label: str) -> None:
    """Of the first replica: what a training says."""
    rows = Replica.objects.filter(attempt__job_id=label.removeprefix("J-"))
    replica = rows.select_related("attempt__job").order_by("rank")[0]
    lines = [
        f"epoch {n // 40}  step {n % 40:>2}/40  loss {2.41 / (1 + n / 60):.4f}  1,9{n % 90:02}/s"
        for n in range(STEPS)
    ]
    lines[90] = "\x1b[33mWARNING\x1b[0m gradient norm 12.8 clipped to 1.0"
    data = "\n".join(lines).encode() + b"\n"
    write_log(replica, 0, data)
    Replica.objects.filter(pk=replica.pk).update(log_bytes=len(data))


def _on_whole_gpus(alice: User) -> Replica:
    """Of a running job of hers whose GPUs are measured whole; of any, where she has none."""
    rows = Replica.objects.filter(attempt__job__status=JobStatus.RUNNING, attempt__job__owner=alice)
    rows = rows.select_related("node", "attempt__job").order_by("pk")
    return rows.filter(allocations__slice__kind=SliceKind.GPU).first() or rows[0]


def _measured(node: Node) -> None:
    """Half an hour of what the sensors of a node said."""
    gpus = list(Gpu.objects.filter(node=node))
    for minute in range(MINUTES):
        samples = {
            gpu.uuid: GpuSample(
                uuid=gpu.uuid,
                utilization_percent=55 + (minute * 7 + gpu.index * 13) % 40,
                memory_used_mib=20_000 + min(minute, 20) * 2_500,
                memory_total_mib=144_384,
                temperature_c=50 + minute % 12,
                power_mw=300_000 + (minute * 37) % 200 * 1_000,
                power_limit_mw=700_000,
            )
            for gpu in gpus
        }
        samples_record(node, samples, timezone.now() - timedelta(minutes=MINUTES - minute))


def _reported(busy: Replica, mine: QuerySet[Job]) -> str:
    """Metrics of the busy job and of two that ended; the query that compares them."""
    ended = mine.filter(status=JobStatus.SUCCEEDED).exclude(pk=busy.attempt.job_id)[:2]
    replicas = [busy, *(Replica.objects.filter(attempt__job=job).latest("pk") for job in ended)]
    skipped = (SkippedCount(SkipReason.NOT_FINITE, 3),)
    for number, replica in enumerate(replicas, start=1):
        loss = [(step, 2.4 / (1 + step / 40 / number) + step % 7 / 40) for step in range(0, 240, 2)]
        accuracy = [(step, 1 - value / 3) for step, value in loss]
        rate = [(step, 1e-3 * 0.99**step) for step, _ in loss]
        named = (("loss", loss), ("val/accuracy", accuracy), ("lr", rate))
        series = [series_points(name, *points) for name, points in named]
        metrics_report(replica, *series, skipped=skipped)
    labels = (replica.attempt.job.label for replica in replicas)
    return urlencode([("job", label) for label in labels])


def _swept(label: str) -> None:
    """What two members of an array reported; the others have not."""
    jobs = Job.objects.filter(array=label.removeprefix("A-")).order_by("array_index")[:2]
    for number, job in enumerate(jobs, start=1):
        attempt = Attempt.objects.create(job=job, number=1, created_at=timezone.now())
        replica = Replica.objects.create(attempt=attempt, rank=0)
        loss = [(step, 2.4 / (1 + step / 40 / number)) for step in range(0, 240, 2)]
        metrics_report(replica, series_points("loss", *loss))


def _registries(admin: User, vision: Project) -> None:
    for address in ("ghcr.io", "registry.example.org:5000/vision/models"):
        registry_set(
            actor=admin, project=vision, address=address, user="puller", password="of nobody"
        )


def _image_pulls() -> Job:
    """Of a job that prepares: one rank pulls its image; a second one waits for its next try."""
    rows = Replica.objects.filter(status=ReplicaStatus.PREPARING)
    job = rows.order_by("-rank", "pk")[0].attempt.job
    pulls = (
        ObservedPull(
            layers_done=7, layers_total=19, bytes_done=3_400 << 20, bytes_total=9_100 << 20
        ),
        ObservedPull(tries=2, max_tries=5, cause=PullCause.REGISTRY_AWAY, words="i/o timeout"),
    )
    for rank, pull in enumerate(pulls):
        Replica.objects.filter(attempt__job=job, rank=rank).update(pull=encode(pull))
    return job


def _disputed_claim() -> None:
    gpu = Gpu.objects.order_by("pk")[0]
    claimant = Node.objects.exclude(pk=gpu.node_id).order_by("name")[0]
    DisputedClaim.objects.create(gpu=gpu, claimant=claimant, claimed_at=timezone.now())


def _held_work() -> Node:
    """Of the last node, as after a restore: a gang and a job that the portal does not know, and an
    attempt of one that it knows."""
    node = Node.objects.order_by("name").last()
    assert node is not None
    gang, single, known = uuid4(), uuid4(), Job.objects.order_by("-pk")[0].uid
    running = [(gang, 1, 0), (gang, 1, 1), (single, 1, 0), (known, 2, 0)]
    rows = [
        HeldReplica(str(uuid4()), str(job), attempt, rank, ReplicaState.RUNNING)
        for job, attempt, rank in running
    ]
    held = [asdict(row) for row in rows]
    since = timezone.now() - timedelta(minutes=12)
    Node.objects.filter(pk=node.pk).update(holding_since=since, held_replicas=held)
    return node


def _templates(admin: User, vision: Project) -> Template:
    """The one that asks for most."""
    for name, description, device in TEMPLATES:
        template_save(
            actor=admin,
            project=vision,
            name=name,
            description=description,
            request=WORK | {"device": device},
            limits=RequestLimits(),
        )
    return Template.objects.get(name="Fine-tune on a node")


def _images(admin: User, vision: Project) -> None:
    patterns = ["pytorch:2.*", "jax:0.6*", "tessera-example:*"]
    image_policy_set(
        actor=admin, project=vision, rule=ImageRule.LISTED, patterns=patterns, version=None
    )


def _volumes(admin: User, vision: Project) -> None:
    """One that a node has measured, and one that no node offers."""
    size = {"subpath": "images", "mib": 153_600, "files": 1_281_167, "is_partial": False}
    root = {"name": "datasets", "read_only": True, "free_mib": 1 << 20, "total_mib": 4 << 20}
    sizes = [size | {"measured_at": int(timezone.now().timestamp()) - 600}]
    node = Node.objects.filter(status="online").order_by("name")[0]
    node.facts |= {"volume_roots": ["datasets"], "volume_space": [root | {"sizes": sizes}]}
    node.save(update_fields=["facts"])
    values = VolumeValues(
        projects=(vision,), read_only=True, description="Pictures and labels", quota_mib=204_800
    )
    place = {"name": "imagenet", "root": "datasets", "subpath": "images"}
    volume_create(actor=admin, **place, values=values)
    values = VolumeValues(projects=(vision,), description="What trainings leave")
    volume_create(actor=admin, name="results", root="scratch", subpath="vision", values=values)


def _webhook(alice: User, vision: Project) -> Endpoint:
    """Without asking for the address of its host."""
    address = "https://chat.example.org/hooks/gpu"
    row = Endpoint.objects.create(owner=alice, name="Team chat", url=address, sealed="of nobody")
    Endpoint.objects.create(
        owner=alice, name="Pager", url="https://pager.example.org/in", kinds=["failed"], sealed="-"
    )
    for minutes, kind, status, answer, problem in reversed(TOLD):
        at = timezone.now() - timedelta(minutes=minutes)
        made = Delivery.objects.create(
            endpoint=row,
            event=0 if kind == "test" else 1_000 + minutes,
            kind=kind,
            body="{}",
            status=status,
            tries=1 if status == DeliveryStatus.DELIVERED else 7,
            tried_at=at,
            answer=answer,
            problem=problem,
        )
        Delivery.objects.filter(pk=made.pk).update(created_at=at)
    return row
