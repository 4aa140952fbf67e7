"""Code that a request names: whose it must be, and that its files are there."""

from uuid import uuid4

import pytest
from django.utils import timezone

from agents.contract.file_transfer import TreeFile
from portal.errors import Refused
from portal.files.models import CodeOrigin, StoredFile
from portal.files.selectors import code_tree_of
from portal.files.services import code_commit, trees_remove
from tests.support.rows import a_job, a_project, a_user

pytestmark = pytest.mark.django_db

SHA256 = "5" * 64


@pytest.fixture
def alice():
    return a_user("alice")


@pytest.fixture
def vision(alice):
    return a_project("vision", alice)


def code_of(project):
    StoredFile.objects.get_or_create(
        project=project, sha256=SHA256, size=3, received_bytes=3, stream="s", is_complete=True
    )
    return code_commit(
        project_id=project.pk,
        files=[TreeFile("train.py", SHA256, 3)],
        creator="alice",
        origin=CodeOrigin.FOLDER,
    )


def refusal(alice, project, code):
    with pytest.raises(Refused) as refused:
        a_job(alice, project, code=code)
    return refused.value.code, refused.value.field


def test_a_job_has_the_code_that_its_request_names(alice, vision):
    tree = code_of(vision)
    job = a_job(alice, vision, code=tree.pk.hex)
    assert job.request["code"] == str(tree.pk)
    assert code_tree_of(job) == tree.pk
    assert code_tree_of(a_job(alice, vision)) is None


def test_code_of_another_project_or_without_its_files_is_refused(alice, vision):
    refused = ("code_unknown", "code")
    assert refusal(alice, vision, str(uuid4())) == refused
    theirs = code_of(a_project("speech", alice))
    assert refusal(alice, vision, str(theirs.pk)) == refused
    mine = code_of(vision)
    trees_remove(trees=[mine], now=timezone.now())
    assert refusal(alice, vision, str(mine.pk)) == refused
