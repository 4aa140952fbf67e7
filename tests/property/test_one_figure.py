"""One figure: what is held, promised, free, running and waiting is the same on every face.

The worlds are rows as planner and nodes left them: gangs and slices that run, jobs that wait for
devices or quota, idle slices that are deleted for a job, jobs that are stopping."""

from pathlib import Path
from random import Random

import pytest
from django.test import Client

from portal.accounts.models import Membership, Project, TokenScope, User
from portal.jobs.services import job_cancel
from tests.support.cli_runner import Person
from tests.support.examples import first_quick
from tests.support.faces import assert_one_answer
from tests.support.figure_faces import (
    Facts,
    dry_run_face,
    figure_faces,
    no_card_contradicts_itself,
    ring_face,
)
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)
DEVICES = (
    *({"mig": profile} for profile in ("1g.18gb", "2g.35gb", "3g.71gb")),
    *({"gpus": count} for count in (1, 1, 2)),
    {"mps": {"threads": 25, "memory": "8GiB"}},
)


def shuffle_work(random: Random, users: list[User], projects: list[Project]) -> None:
    """Jobs of all kinds in each project, also beyond its quota; some have ended, one may wait until
    idle slices are deleted, and some are stopping."""
    sizes = [2, *random.sample([1, 1, 2, 4], random.randint(0, 2))]
    nodes = [a_node(f"n{number}", gpus=size) for number, size in enumerate(sizes)]
    jobs = []
    for project in projects:
        for _ in range(random.randint(1, 8)):
            owner = random.choice(users)
            jobs.append(a_job(owner, project, device=random.choice(DEVICES)))
        a_job(users[0], project, device=random.choice(DEVICES))
    settle(*nodes)
    for job in random.sample(jobs, len(jobs) // 2):
        job_cancel(job=job, actor=job.owner.username)
    if random.random() < 0.7:
        settle(*nodes, rounds=random.randint(1, 6))
    for _ in range(random.randint(0, 3)):
        a_job(users[0], random.choice(projects), device=random.choice(DEVICES))


@pytest.mark.parametrize("seed", first_quick(*range(16)))
def test_no_two_faces_of_a_figure_differ(seed: int, tmp_path: Path) -> None:
    random, olga, otto = Random(seed), a_user("olga"), a_user("otto")
    projects = [a_project(slug, olga, gpus=random.randint(2, 5)) for slug in ("speech", "vision")]
    for project in projects:
        Membership.objects.create(project=project, user=otto, role="member")
    shuffle_work(random, [olga, otto], projects)
    client, person = Client(), Person(olga, tmp_path, TokenScope.READ)
    client.force_login(olga)

    def fetch(path: str) -> str:
        answer = client.get(path)
        assert answer.status_code == 200, path
        return answer.content.decode()

    faces: dict[str, Facts] = figure_faces(fetch, person.output, [p.slug for p in projects])
    for project in projects:
        faces[f"dry run in {project.slug}"] = dry_run_face(
            lambda body: client.post(
                "/api/v1/jobs?dry_run=true", body, content_type="application/json"
            ).json(),
            project,
        )
        no_card_contradicts_itself(fetch(f"/request/?project={project.slug}"))
        client.post("/home/project", {"project": project.slug})
        faces[f"ring of {project.slug}"] = ring_face(fetch("/"), project.slug)
    assert_one_answer(faces)  # type: ignore[arg-type]
