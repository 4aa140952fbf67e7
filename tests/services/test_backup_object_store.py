"""Backup and restore of logs in an S3-compatible store, a real one."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import override_settings

from portal.job_logs.storage import read_log
from portal.jobs.models import Replica
from portal.platform import Platform, platform_from
from portal.storage.errors import ObjectMissing
from portal.storage.models import ByteStore, Segment
from portal.storage.stores import current_store, forget_stores
from tests.environment.object_store import ObjectStore
from tests.support.restores import append_log, assert_three_more_jobs_and_a_restore, restore
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = [
    pytest.mark.services,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.django_db(transaction=True),
]
LOG = b"one\ntwo\n"


@contextmanager
def portal_in_bucket(object_store: ObjectStore, prefix: str, folder: Path) -> Iterator[None]:
    """A portal whose logs are below this prefix of the bucket, and whose own folder is empty."""
    read: Platform = platform_from(object_store.environ)
    bucket = {name: getattr(read, name) for name in vars(read) if name.startswith("s3_")}
    platform = replace(settings.PLATFORM, **bucket | {"s3_prefix": prefix, "var": folder})
    forget_stores()
    with override_settings(PLATFORM=platform):
        yield
    forget_stores()


def object_names() -> list[str]:
    return list(Segment.objects.values_list("object_name", flat=True))


def a_running_replica() -> Replica:
    alice, node = a_user("alice"), a_node("gpu-1")
    a_job(alice, a_project("vision", alice))
    settle(node)
    replica = Replica.objects.get()
    append_log(replica, 0, LOG)
    return replica


def test_three_more_jobs_and_a_restore_in_a_bucket(object_store, tmp_path):
    with portal_in_bucket(object_store, tmp_path.name, tmp_path / "var"):
        assert_three_more_jobs_and_a_restore(tmp_path / "tessera.tar")
        assert not (tmp_path / "var" / "logs").exists(), "all of it was in the bucket"


def test_a_restore_into_an_empty_bucket_brings_the_logs(object_store, tmp_path):
    archive = tmp_path / "tessera.tar"
    with portal_in_bucket(object_store, f"{tmp_path.name}-old", tmp_path / "old"):
        replica = a_running_replica()
        call_command("backup", str(archive), stdout=StringIO())
    with portal_in_bucket(object_store, f"{tmp_path.name}-new", tmp_path / "new"):
        name = object_names()[0]
        with pytest.raises(ObjectMissing):
            current_store().size(name)
        restore(archive)
        replica.refresh_from_db()
        assert read_log(replica, 0, 100) == LOG
        assert current_store().size(name) == len(LOG)
        assert ByteStore.objects.count() == 1


def test_an_object_that_the_bucket_lost_is_listed_by_backup_and_restore(object_store, tmp_path):
    archive, words = tmp_path / "tessera.tar", StringIO()
    with portal_in_bucket(object_store, tmp_path.name, tmp_path / "var"):
        a_running_replica()
        store = current_store()
        for name in object_names():
            store.delete(name)
        call_command("backup", str(archive), stdout=words, stderr=words)
        assert "the store does not have" in words.getvalue()
        assert "1 logs were cut to what exists" in restore(archive)


def test_a_bucket_that_does_not_answer_ends_both_commands_and_changes_nothing(
    object_store, tmp_path
):
    archive = tmp_path / "tessera.tar"
    with portal_in_bucket(object_store, tmp_path.name, tmp_path / "var"):
        replica = a_running_replica()
        call_command("backup", str(archive), stdout=StringIO())
        object_store.kill()
        try:
            with pytest.raises(CommandError, match="log store does not answer"):
                call_command("backup", str(tmp_path / "another.tar"), stdout=StringIO())
            with pytest.raises(CommandError, match="log store does not answer"):
                restore(archive)
        finally:
            object_store.start()
        forget_stores()
        replica.refresh_from_db()
        assert read_log(replica, 0, 100) == LOG and not (tmp_path / "another.tar").exists()
