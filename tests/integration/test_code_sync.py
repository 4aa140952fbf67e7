"""`tessera submit --sync` against the real REST: what is sent, and what the job then names."""

import httpx
import pytest

from portal.files.models import StoredFile, Tree
from portal.jobs.models import Job
from tests.support.cli_runner import Person
from tests.support.rows import a_node, a_project, a_user

pytestmark = pytest.mark.django_db(transaction=True)

COMMAND = ("--image", "example/app", "--gpus", "1", "--", "python", "train.py")


@pytest.fixture
def alice(tmp_path):
    user = a_user("alice")
    a_project("vision", user)
    a_node()
    return Person(user, tmp_path)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "code"
    made.mkdir()
    (made / "train.py").write_text("print('hello')\n")
    (made / "empty").write_text("")
    (made / "notes.log").write_text("not for others")
    (made / ".gitignore").write_text("*.log\n")
    return made


def sent_chunks(monkeypatch) -> list[str]:
    """Paths of the chunks that are sent from now on."""
    chunks, request = [], httpx.Client.build_request

    def watched(client, method, url, **options):
        chunks.extend([str(url)] if method == "PUT" else [])
        return request(client, method, url, **options)

    monkeypatch.setattr(httpx.Client, "build_request", watched)
    return chunks


def test_a_folder_is_sent_and_a_second_submit_sends_what_changed(alice, folder, monkeypatch):
    chunks = sent_chunks(monkeypatch)
    done = alice("submit", "--sync", str(folder), *COMMAND)
    assert done.exit_code == 0, done.stderr
    assert "Code: 3 files" in done.stderr
    (job,) = Job.objects.all()
    tree = Tree.objects.get(pk=job.request["code"])
    paths = list(tree.entries.values_list("path", flat=True))
    assert paths == [".gitignore", "empty", "train.py"]
    assert len(chunks) == 3

    alice.output("submit", "--sync", str(folder), *COMMAND)
    assert len(chunks) == 3, "nothing has changed"
    assert Tree.objects.count() == 1

    (folder / "train.py").write_text("print('hello again')\n")
    alice.output("submit", "--sync", str(folder), *COMMAND)
    assert len(chunks) == 4
    assert len(set(Job.objects.values_list("request__code", flat=True))) == 2
    assert StoredFile.objects.filter(is_complete=True).count() == 4


def test_a_link_is_left_out_and_named(alice, folder):
    (folder / "secret").symlink_to("/etc/passwd")
    done = alice("submit", "--sync", str(folder), *COMMAND)
    assert done.exit_code == 0, done.stderr
    assert "links and special files are not sent: secret" in " ".join(done.stderr.split())


def test_new_code_and_code_that_was_sent_exclude_each_other(alice, folder):
    tree = "8c5b0a3e-2f41-4a7d-9a63-0d9f3c1e7b52"
    done = alice("submit", "--sync", str(folder), "--code", tree, *COMMAND)
    assert done.exit_code == 2
    assert "use one of them" in done.stderr
    assert not Job.objects.exists()


def test_a_folder_that_is_not_there_sends_nothing(alice, tmp_path):
    done = alice("submit", "--sync", str(tmp_path / "absent"), *COMMAND)
    assert done.exit_code == 2
    assert "is not a folder" in done.stderr
