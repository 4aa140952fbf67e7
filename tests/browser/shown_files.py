"""Files that pages show beyond the seeded cluster: what a job wrote, and the code of a project."""

from __future__ import annotations

from django.utils import timezone

from agents.contract.file_transfer import TreeKind
from portal.accounts.models import Project
from portal.files.models import CodeOrigin, Tree
from portal.jobs.models import Job, Replica
from tests.support.event_files import scalar_record
from tests.support.file_rows import a_code_tree, a_tree

REPOSITORY = "git+https://git.example.org/vision/detector.git@main"
COMMITS = ("7c4e1f0a93b25d68e0417fa2c9d3b85e6170a4fd", "e3b91d5c02f7a84619d0c6b7e25f38a14d9c7b60")


def files_of(label: str) -> Tree:
    """A checkpoint and the output of its first replica."""
    rows = Replica.objects.filter(attempt__job_id=label.removeprefix("J-"))
    replica = rows.select_related("attempt__job").order_by("rank")[0]
    state = {"saved.json": b'{"step": 1200}', "state.pt": bytes(3 << 20)}
    a_tree(replica, state, TreeKind.CHECKPOINT, step=1_200)
    losses = "".join(f"{step},{2.4 / (1 + step / 60):.4f}\n" for step in range(0, 1_200, 40))
    scalars = (
        scalar_record(tag, step, scale / (1 + step / 60))
        for step in range(0, 1_200, 40)
        for tag, scale in (("loss/train", 2.4), ("loss/val", 2.9), ("lr", 0.001))
    )
    return a_tree(
        replica,
        {
            "metrics.csv": b"step,loss\n" + losses.encode(),
            "model/config.json": b'{"layers": 24, "width": 1024}',
            "model/weights.safetensors": bytes(2 << 20),
            "runs/events.out.tfevents.1.node": b"".join(scalars),
            "notes.md": b"# Run 7\n\nLower learning rate, as discussed.\n",
        },
    )


def code_of(project: Project) -> Tree:
    """Code that many jobs have, that one has, that none has yet; and two commits of a branch. The
    first of them."""
    rows = Job.objects.filter(project=project, array=None, attempts__isnull=False).distinct()
    jobs = list(rows.order_by("-pk")[:9])
    names = {"train.py": b"import torch\n" * 400, "model.py": b"class Net: ...\n" * 900}
    for count, text in ((0, b"lr: 0.1\n"), (1, b"lr: 0.01\n"), (5, b"lr: 0.001\n")):
        tree = a_code_tree(project.pk, names | {"conf.yaml": text}, jobs[0].owner.username)
        for _ in range(count):
            _has_code(jobs.pop(), str(tree.pk))
    Tree.objects.filter(pk=tree.pk).update(origin=CodeOrigin.UPLOAD, created_at=timezone.now())
    for job, commit in zip(jobs, (COMMITS[0], COMMITS[0], COMMITS[1]), strict=True):
        _has_code(job, REPOSITORY)
        Replica.objects.filter(attempt__job=job).update(code_commit=commit)
    return tree


def _has_code(job: Job, code: str) -> None:
    Job.objects.filter(pk=job.pk).update(request=job.request | {"code": code})
