"""The code of a project: trees and commits, by whom, which jobs have them, and until when."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from portal.accounts.models import Role
from portal.audit.models import AuditEntry
from portal.files.code_list import NAMED_JOBS, project_code, project_commits, stored_code
from portal.files.limits import stored_limits
from portal.files.models import ProjectFiles, Tree
from portal.files.services import trees_remove
from portal.jobs.models import Attempt, Job, Replica
from scheduler.core.model.states import JobStatus
from tests.support.file_rows import a_code_tree
from tests.support.rows import a_job, a_project, a_user

pytestmark = pytest.mark.django_db(transaction=True)
MAIN = "git+https://git.example/team/app.git@main"
FIRST, SECOND = "1" * 40, "2" * 40


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    return a_project("vision", alice)


@pytest.fixture
def client(alice):
    client = Client()
    client.force_login(alice)
    return client


def a_tree(project, text, creator="alice"):
    return a_code_tree(project.pk, {"train.py": text.encode()}, creator)


def a_git_job(user, project, commits, source=MAIN):
    """A job whose attempts ran these commits."""
    job = a_job(user, project, code=source)
    for number, commit in enumerate(commits, 1):
        attempt = Attempt.objects.create(job=job, number=number, created_at=timezone.now())
        for rank in (0, 1):
            Replica.objects.create(attempt=attempt, rank=rank, code_commit=commit)
    return job


def end(job, days=0):
    at = timezone.now() - timedelta(days=days)
    Job.objects.filter(pk=job.pk).update(status=JobStatus.SUCCEEDED, finished_at=at)
    return at


def listed(project):
    return stored_code(project_code(project), stored_limits(project.pk))


def test_code_is_listed_with_its_newest_jobs_and_how_many_there_are(alice, vision):
    used, unused = a_tree(vision, "1"), a_tree(vision, "2")
    jobs = [a_job(alice, vision, code=str(used.pk)).label for _ in range(NAMED_JOBS + 2)]
    a_job(alice, vision)
    newest, oldest = listed(vision)
    assert (newest.tree, newest.use.jobs, newest.use.count) == (unused, [], 0)
    assert (oldest.tree, oldest.use.jobs) == (used, jobs[: -NAMED_JOBS - 1 : -1])
    assert (oldest.use.count, oldest.use.more) == (NAMED_JOBS + 2, 2)


def test_it_is_removed_after_the_last_job_with_it_and_not_while_one_needs_it(alice, vision):
    tree = a_tree(vision, "1")
    first, last = (a_job(alice, vision, code=str(tree.pk)) for _ in range(2))
    end(first, days=20)
    (code,) = listed(vision)
    assert (code.is_needed, code.removal) == (True, None)
    end(last, days=3)
    Tree.objects.update(created_at=timezone.now() - timedelta(days=25))
    at = Job.objects.get(pk=last.pk).finished_at
    (code,) = listed(vision)
    assert (code.is_needed, code.removal) == (False, at + timedelta(days=30))
    ProjectFiles.objects.filter(pk=vision.pk).update(kept_days=0)
    assert listed(vision)[0].removal is None


def test_nothing_of_another_project_and_nothing_that_was_removed_is_listed(alice, vision):
    speech = a_project("speech", alice)
    a_tree(speech, "1"), a_git_job(alice, speech, [FIRST])
    trees_remove(trees=[a_tree(vision, "1")], now=timezone.now())
    assert (listed(vision), project_commits(vision)) == ([], [])


def test_commits_are_listed_with_their_repository_and_the_jobs_that_ran_them(alice, vision):
    bob = a_user("bob")
    vision.memberships.create(user=bob, role=Role.MEMBER)
    first = a_git_job(bob, vision, [FIRST, FIRST])
    other = a_git_job(alice, vision, [SECOND])
    again = [a_git_job(alice, vision, [FIRST]) for _ in range(NAMED_JOBS)]
    elsewhere = a_git_job(alice, vision, [FIRST], MAIN.replace("@main", "@dev"))
    a_git_job(alice, vision, [""])
    a_job(alice, vision, code=str(a_tree(vision, "1").pk))
    rows = project_commits(vision)
    named = [
        (row.repository[-4:], row.commit, row.creator, row.use.jobs, row.use.count) for row in rows
    ]
    newest = [job.label for job in reversed(again)]
    assert named == [
        ("@dev", FIRST, "alice", [elsewhere.label], 1),
        ("main", FIRST, "bob", newest, NAMED_JOBS + 1),
        ("main", SECOND, "alice", [other.label], 1),
    ]
    assert (rows[1].first_at, rows[1].last_at) == (first.submitted_at, again[-1].submitted_at)


def test_rest_lists_both(client, alice, vision):
    tree = a_tree(vision, "1")
    end(a_job(alice, vision, code=str(tree.pk)))
    job = a_git_job(alice, vision, [FIRST])
    (code,) = client.get("/api/v1/projects/vision/trees").json()["results"]
    shown = {name: code[name] for name in ("id", "origin", "digest", "file_count", "total_bytes")}
    assert shown == {
        "id": str(tree.pk),
        "origin": "folder",
        "digest": tree.digest,
        "file_count": 1,
        "total_bytes": 1,
    }
    assert (code["creator"], code["job_count"], code["is_needed"]) == ("alice", 1, False)
    assert code["removal_at"]
    (commit,) = client.get("/api/v1/projects/vision/commits").json()["results"]
    assert (commit["repository"], commit["commit"], commit["jobs"]) == (MAIN, FIRST, [job.label])


def test_rest_pages_through_code(client, vision):
    trees = [str(a_tree(vision, text).pk) for text in "12345"]
    address, seen = "/api/v1/projects/vision/trees?page_size=2", []
    while address:
        page = client.get(address).json()
        seen += [code["id"] for code in page["results"]]
        address = page["next"]
    assert seen == trees[::-1]
    assert client.get("/api/v1/projects/vision/trees?cursor=cD1ub3doZXJl").status_code == 404


def test_the_page_shows_both_and_says_where_there_is_none(client, alice, vision):
    page = client.get("/projects/vision/code/").content.decode()
    assert "No code is stored." in page
    assert "No job has run code from a git repository." in page
    tree, job = a_tree(vision, "1", creator="<b>eve"), a_git_job(alice, vision, [FIRST])
    user = a_job(alice, vision, code=str(tree.pk))
    page = client.get("/projects/vision/code/").content.decode()
    assert tree.digest[:12] in page and f"/trees/{tree.pk}/archive" in page
    assert f'href="/jobs/{user.label}/"' in page and f'href="/jobs/{job.label}/"' in page
    assert MAIN in page and FIRST[:12] in page
    assert "folder, by tessera submit --sync" in page
    assert "&lt;b&gt;eve" in page and "<b>eve" not in page
    assert 'href="/projects/vision/code/"' in client.get("/projects/vision/").content.decode()


def test_code_is_removed_there_after_a_question_and_not_while_a_job_needs_it(client, alice, vision):
    vision.memberships.update(role=Role.ADMIN)
    tree = a_tree(vision, "1", creator="eve")
    job = a_job(alice, vision, code=str(tree.pk))
    address = f"/projects/vision/code/{tree.pk}/remove"
    page = client.get("/projects/vision/code/").content.decode()
    assert f'href="{address}"' in page and f"Remove {tree.digest[:12]}" in page
    question = client.get(address).content.decode()
    assert "Remove code?" in question and tree.digest[:12] in question and "eve" in question
    refused = client.post(address)
    assert refused.status_code == 409 and job.label in refused.content.decode()
    end(job)
    assert client.post(address).headers["Location"] == "/projects/vision/code/"
    (line,) = AuditEntry.objects.filter(action="files_remove", noun_id=str(tree.pk))
    assert (line.actor, line.project_id, line.before["kind"]) == ("alice", vision.pk, "code")
    assert "No code is stored." in client.get("/projects/vision/code/").content.decode()
    assert "were removed" in client.post(address).content.decode()


def test_a_member_removes_only_what_they_sent(alice, vision):
    bob = a_user("bob")
    vision.memberships.create(user=bob, role=Role.MEMBER)
    own, other = a_tree(vision, "1", creator="bob"), a_tree(vision, "2")
    client = Client()
    client.force_login(bob)
    page = client.get("/projects/vision/code/").content.decode()
    assert f"/code/{own.pk}/remove" in page and f"/code/{other.pk}/remove" not in page
    assert client.post(f"/projects/vision/code/{other.pk}/remove").status_code == 404
    speech = a_project("speech", bob)
    assert client.get(f"/projects/{speech.slug}/code/{own.pk}/remove").status_code == 404
    assert client.post(f"/projects/vision/code/{own.pk}/remove").status_code == 302


def test_the_number_of_queries_does_not_grow(client, alice, vision, django_assert_max_num_queries):
    for text in "123456":
        tree = a_tree(vision, text)
        a_job(alice, vision, code=str(tree.pk))
        a_git_job(alice, vision, [text * 40])
    with django_assert_max_num_queries(16):
        client.get("/projects/vision/code/")
