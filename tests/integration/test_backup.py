"""One archive of one moment, on SQLite: what it has, what it refuses, and what it leaves alone."""

import io
import json
import tarfile
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import override_settings

from portal.backup import consistency, services
from portal.backup.archive import BackupError, archive_reader
from portal.inventory.models import Node
from portal.job_logs.storage import read_log
from portal.jobs.models import Job, Replica
from portal.platform import Platform
from portal.storage.errors import StoreUnavailable
from portal.storage.models import Segment
from portal.storage.stores import current_store, forget_stores
from tests.support.restores import append_log, assert_three_more_jobs_and_a_restore, restore
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "tessera.tar"


def backup(target: Path, *options: str) -> str:
    out = StringIO()
    call_command("backup", str(target), *options, stdout=out, stderr=out)
    return out.getvalue()


def a_running_replica(log: bytes = b"one\ntwo\n") -> Replica:
    alice, node = a_user("alice"), a_node("gpu-1")
    a_job(alice, a_project("vision", alice))
    settle(node)
    replica = Replica.objects.get()
    append_log(replica, 0, log)
    replica.refresh_from_db()
    return replica


def rewritten(archive: Path, **changes: object) -> Path:
    """The archive with another manifest."""
    target = archive.with_name("changed.tar")
    with tarfile.open(archive) as old, tarfile.open(target, "w") as new:
        for member in old.getmembers():
            data = old.extractfile(member).read()
            if member.name == "manifest.json":
                data = json.dumps(json.loads(data) | changes).encode()
                member.size = len(data)
            new.addfile(member, io.BytesIO(data))
    return target


def test_three_more_jobs_and_a_restore(archive):
    assert_three_more_jobs_and_a_restore(archive)


def test_a_restore_on_another_host_has_the_logs(archive, tmp_path):
    replica = a_running_replica()
    backup(archive)
    with override_settings(PLATFORM=Platform(var=tmp_path / "other")):
        forget_stores()
        restore(archive)
        replica.refresh_from_db()
        assert read_log(replica, 0, 100) == b"one\ntwo\n"
    forget_stores()


def test_the_key_is_in_it_only_on_demand(archive, tmp_path):
    assert "does not contain TESSERA_SECRET_KEY" in backup(archive)
    with archive_reader(archive) as opened:
        assert opened.manifest.keys == []
    whole = tmp_path / "whole.tar"
    backup(whole, "--with-keys")
    keys = tmp_path / "keys"
    call_command("restore", str(whole), "--yes-replace", "--keys-to", str(keys), stdout=StringIO())
    assert keys.read_text().split() == [settings.SECRET_KEY]
    assert keys.stat().st_mode & 0o777 == 0o600


def test_another_key_is_noticed(archive):
    backup(archive)
    with override_settings(SECRET_KEY="another"):
        assert "is not the key of the archive" in restore(archive)


def test_an_archive_is_never_overwritten(archive):
    backup(archive)
    with pytest.raises(CommandError, match="exists already"):
        backup(archive)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"migrations": {"jobs": ["9999_later"]}}, "a newer portal"),
        ({"vendor": "postgresql"}, "of postgresql"),
        ({"format": 2}, "has format 2"),
        ({"digests": {"database": "0" * 64}}, "another digest"),
        ({"digests": {"objects/none": "0" * 64}}, "is not in it"),
    ],
)
def test_what_cannot_be_restored_changes_nothing(archive, changes, why):
    a_running_replica()
    backup(archive)
    with pytest.raises(CommandError, match=why):
        restore(rewritten(archive, **changes))
    assert Replica.objects.get().status == "running"


@pytest.mark.parametrize("kept", [0, 0.01, 0.5])
def test_an_archive_that_was_cut_short_is_refused(archive, kept):
    backup(archive)
    data = archive.read_bytes()
    archive.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(BackupError), archive_reader(archive):
        pass


def test_a_database_with_rows_is_not_replaced_without_a_word(archive):
    backup(archive)
    a_user("alice")
    with pytest.raises(CommandError, match="--yes-replace"):
        call_command("restore", str(archive))


def test_a_failure_in_the_middle_leaves_the_target_as_it_was(archive, monkeypatch):
    alice = a_user("alice")
    home = a_project("vision", alice)
    backup(archive)
    job = a_job(alice, home)

    def fail(margin: int) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(services, "rows_settle", fail)
    with pytest.raises(CommandError, match="the disk is full"):
        restore(archive)
    assert Job.objects.get().pk == job.pk


def test_a_lost_object_is_listed_and_its_log_cut_to_what_exists(archive):
    replica = a_running_replica()
    append_log(replica, 8, b"three\n")
    lost = Segment.objects.get(start=8)
    current_store().delete(lost.object_name)
    assert lost.object_name in backup(archive)
    said = restore(archive)
    assert f"{lost.object_name} is missing" in said and "1 logs were cut" in said
    replica.refresh_from_db()
    assert replica.log_bytes == 8 and read_log(replica, 0, 100) == b"one\ntwo\n"


def unavailable(*_: object) -> None:
    raise StoreUnavailable("no route to the store")


def test_a_backup_without_its_store_is_refused(archive, monkeypatch):
    """An archive that lacks every log must not pass for a complete one."""
    a_running_replica()
    monkeypatch.setattr(type(current_store()), "get", unavailable)
    with pytest.raises(CommandError, match="no route to the store"):
        backup(archive)
    assert not archive.exists()


def test_a_store_that_does_not_answer_cuts_no_log(archive, monkeypatch):
    replica = a_running_replica()
    backup(archive)
    monkeypatch.setattr(consistency, "store_by_key", unavailable)
    with pytest.raises(CommandError, match="no route to the store"):
        restore(archive)
    replica.refresh_from_db()
    assert read_log(replica, 0, 100) == b"one\ntwo\n"
    assert Node.objects.get().restored_at is None


def test_an_archive_without_keys_is_refused_before_anything_is_replaced(archive, tmp_path):
    backup(archive)
    later = a_user("later")
    with pytest.raises(CommandError, match=r"has no keys.*nothing was changed.*--keys-to"):
        call_command("restore", str(archive), "--yes-replace", "--keys-to", str(tmp_path / "keys"))
    later.refresh_from_db()
    assert not (tmp_path / "keys").exists()


def test_a_file_of_keys_that_exists_is_refused_before_anything_is_replaced(archive, tmp_path):
    backup(archive, "--with-keys")
    keys = tmp_path / "keys"
    keys.write_text("of another portal")
    with pytest.raises(CommandError, match="exists already"):
        call_command("restore", str(archive), "--yes-replace", "--keys-to", str(keys))
    assert keys.read_text() == "of another portal"
