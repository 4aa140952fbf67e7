"""Streams in a store: what is read is what was written, or an error that says what is wrong."""

import errno
import os
import random
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import settings
from django.core.files.base import ContentFile
from django.test import override_settings

from agents.contract.calls import MAX_LOG_CHUNK_BYTES
from portal.job_logs.adoption import file_name
from portal.job_logs.storage import read_log, stream_name
from portal.jobs.models import Replica
from portal.storage import objects
from portal.storage.checks import store_check
from portal.storage.errors import OtherHost, SizeMismatch, StoreUnavailable
from portal.storage.models import ByteStore, Segment
from portal.storage.segments import (
    StreamEnd,
    delete_forgotten,
    discard,
    forget_stream,
    merge_end,
    record,
    upload,
)
from portal.storage.stores import current_store, folder_id, reachable_stores
from portal.storage.streams import open_streams
from tests.support.rows import a_job, a_node, settle

pytestmark = pytest.mark.django_db(transaction=True)
LINES = [b"line %02d\n" % number for number in range(40)]


@pytest.fixture(autouse=True)
def own_folder(tmp_path):
    with a_host(tmp_path / "web-1"):
        yield


def a_host(folder):
    """A web process whose TESSERA_VAR is this folder."""
    return override_settings(PLATFORM=replace(settings.PLATFORM, var=folder))


def write(name: str, offset: int, data: bytes) -> int:
    record([StreamEnd(name, offset, upload(name, data))])
    return offset + len(data)


def write_lines(name: str) -> int:
    """An object for each line: enough small ones to be merged. Returns the end of the stream."""
    end = 0
    for line in LINES:
        end = write(name, end, line)
    return end


def read(name: str, size: int) -> bytes:
    return open_streams({name: size})[name].read(0, size)


def stored_path(name: str):
    row = Segment.objects.filter(stream=name).first()
    return settings.PLATFORM.var / row.object_name


def test_what_is_written_in_any_pieces_is_read_whole_and_in_few_objects():
    chance = random.Random(7)
    data = b"".join(b"step %d\n" % n for n in range(200_000))
    end = 0
    while end < len(data):
        piece = data[end : end + chance.choice((1, 90, 5_000, 70_000, 256 << 10))]
        end = write("logs/a", end, piece)
        merge_end("logs/a")
    stream = open_streams({"logs/a": end})["logs/a"]
    assert stream.read(0, end) == data
    assert stream.first_gap is None
    assert stream.lines_before(end) == 200_000
    assert len(stream.segments) < 100
    assert len(current_store().names("logs/a")) == len(stream.segments)
    for offset in (0, 1, end // 2, end - 1):
        assert stream.read(offset, 10) == data[offset : offset + 10]


def test_an_object_cut_short_or_changed_is_an_error():
    end = write("logs/a", 0, b"all of this arrived\n")
    path = stored_path("logs/a")
    for wrong in (b"all of", b"", b"all of this ARRIVED\n", b"\0" * 20):
        path.chmod(0o600)
        path.write_bytes(wrong)
        with pytest.raises(SizeMismatch):
            read("logs/a", end)


def test_a_row_that_is_missing_is_an_error_and_no_zeros():
    write("logs/a", 0, b"first\n")
    end = write("logs/a", 6, b"second\n")
    Segment.objects.filter(start=0).delete()
    with pytest.raises(SizeMismatch, match="counts 13 bytes, and knows of none at 0"):
        read("logs/a", end)
    with pytest.raises(SizeMismatch, match="knows of none at 13"):
        open_streams({"logs/a": 20})["logs/a"].read(10, 10)


def test_two_hosts_with_folders_of_their_own_each_name_the_other(tmp_path):
    first = write("logs/a", 0, b"on web 1\n")
    with a_host(tmp_path / "web-2"):
        end = write("logs/a", first, b"on web 2\n")
        with pytest.raises(OtherHost, match="disk of another web host") as refused:
            read("logs/a", end)
        assert str(tmp_path / "web-1") in str(refused.value)
    with pytest.raises(OtherHost):
        read("logs/a", end)
    assert ByteStore.objects.count() == 2
    # Nothing was overwritten: with the files in one folder, the log is whole.
    for path in (tmp_path / "web-2" / "logs" / "a").iterdir():
        path.rename(tmp_path / "web-1" / "logs" / "a" / path.name)
    Segment.objects.update(store=ByteStore.objects.get(location=str(tmp_path / "web-1")))
    assert read("logs/a", end) == b"on web 1\non web 2\n"


def test_hosts_that_share_a_folder_have_one_store(tmp_path):
    assert folder_id(tmp_path / "new") == folder_id(tmp_path / "new")
    assert list((tmp_path / "new").rglob("*")) == [
        tmp_path / "new" / "logs",
        tmp_path / "new" / "logs" / ".store-id",
    ]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO])
def test_a_store_that_refuses_or_is_full_is_unavailable_and_counts_nothing(monkeypatch, number):
    end = write("logs/a", 0, b"before\n")
    monkeypatch.setattr(objects, "PAUSE_SECONDS", 0)

    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as broken:
        broken.setattr(current_store()._storage, "_save", fail)
        with pytest.raises(StoreUnavailable, match=os.strerror(number)):
            upload("logs/a", b"lost?\n")
        assert current_store().is_failing
    assert write("logs/a", end, b"after\n") == 13
    assert not current_store().is_failing
    assert read("logs/a", 13) == b"before\nafter\n"


def test_a_store_that_keeps_fewer_bytes_than_it_says_is_not_believed(monkeypatch):
    store = current_store()
    monkeypatch.setattr(store._storage, "size", lambda name: 3)
    with pytest.raises(StoreUnavailable, match="kept 3 of 9 bytes"):
        upload("logs/a", b"nine here")
    assert store.is_failing
    assert list((settings.PLATFORM.var / "logs" / "a").iterdir()) == []


def test_an_upload_that_a_full_disk_cut_short_leaves_nothing_behind(monkeypatch):
    storage = current_store()._storage
    save = storage._save

    def fill(name, content):
        save(name, ContentFile(content.read()[:4]))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(storage, "_save", fill)
    with pytest.raises(StoreUnavailable, match="No space left"):
        upload("logs/a", b"nine here")
    assert list((settings.PLATFORM.var / "logs" / "a").iterdir()) == []


def test_a_store_that_does_not_find_what_it_just_took_is_unavailable(monkeypatch):
    def size(name):
        raise FileNotFoundError(name)

    monkeypatch.setattr(current_store()._storage, "size", size)
    with pytest.raises(StoreUnavailable, match="kept 0 of 9 bytes"):
        upload("logs/a", b"nine here")


def test_a_folder_that_cannot_be_written_to_is_unavailable(tmp_path):
    (tmp_path / "a-file").touch()
    with a_host(tmp_path / "a-file"), pytest.raises(StoreUnavailable, match="Not a directory"):
        upload("logs/a", b"x")


def test_after_a_failure_the_next_calls_do_not_wait_for_the_store(monkeypatch):
    calls = []

    def hang(name, content):
        calls.append(name)
        raise OSError("timed out")

    monkeypatch.setattr(current_store()._storage, "_save", hang)
    for _ in range(5):
        with pytest.raises(StoreUnavailable):
            upload("logs/a", b"x")
    assert len(calls) == 1


def test_a_reader_that_began_before_a_merge_still_gets_the_bytes():
    end = write_lines("logs/a")
    before = open_streams({"logs/a": end})["logs/a"]
    merge_end("logs/a")
    assert Segment.objects.filter(stream="logs/a").count() < 40
    assert before.read(0, end) == b"".join(LINES)


def test_a_merge_that_the_store_refuses_leaves_the_log_as_it_is(monkeypatch):
    end = write_lines("logs/a")

    def fail(*_, **__):
        raise OSError("full")

    with monkeypatch.context() as broken:
        broken.setattr(current_store()._storage, "_save", fail)
        merge_end("logs/a")
    monkeypatch.setattr(current_store(), "_paused_until", 0.0)
    assert read("logs/a", end) == b"".join(LINES)


def test_a_merge_does_not_make_changed_bytes_the_truth():
    end = write_lines("logs/a")
    stored_path("logs/a").write_bytes(b"LINE 00\n")
    merge_end("logs/a")
    with pytest.raises(SizeMismatch, match="other bytes"):
        read("logs/a", end)
    assert open_streams({"logs/a": end})["logs/a"].read(8, 8) == b"line 01\n"


def test_a_merge_moves_no_bytes_over_a_gap():
    end = write_lines("logs/a")
    Segment.objects.filter(start=8).delete()
    merge_end("logs/a")
    stream = open_streams({"logs/a": end})["logs/a"]
    assert stream.first_gap == 8
    assert stream.read(16, end - 16) == b"".join(LINES[2:])


def test_a_stream_that_is_forgotten_during_a_merge_stays_forgotten(monkeypatch):
    write_lines("logs/a")
    store = current_store()
    save = store._storage.save

    def save_late(name, content):
        forget_stream("logs/a")
        return save(name, content)

    with monkeypatch.context() as late:
        late.setattr(store._storage, "save", save_late)
        merge_end("logs/a")
    assert not Segment.objects.filter(stream="logs/a").exists()
    assert delete_forgotten(10) == 1
    assert (store.names("logs/a"), Segment.objects.count()) == ([], 0)


def test_full_chunks_are_not_written_twice():
    for number in range(40):
        write("logs/a", number * MAX_LOG_CHUNK_BYTES, bytes(MAX_LOG_CHUNK_BYTES))
    names = current_store().names("logs/a")
    merge_end("logs/a")
    assert current_store().names("logs/a") == names


def test_a_stream_is_removed_with_uploads_that_never_counted():
    write("logs/a", 0, b"counted\n")
    upload("logs/a", b"a process died after this\n")
    discard(upload("logs/a", b"sent twice\n"))
    assert len(current_store().names("logs/a")) == 2
    forget_stream("logs/a")
    with pytest.raises(SizeMismatch):
        read("logs/a", 8)
    assert delete_forgotten(10) == 1
    assert (current_store().names("logs/a"), Segment.objects.count()) == ([], 0)
    assert delete_forgotten(10) == 0


def test_bytes_on_another_hosts_disk_are_not_forgotten(tmp_path):
    with a_host(tmp_path / "web-2"):
        write("logs/a", 0, b"there\n")
    forget_stream("logs/a")
    assert delete_forgotten(10) == 0
    assert Segment.objects.count() == 1
    with a_host(tmp_path / "web-2"):
        assert delete_forgotten(10) == 1
    assert Segment.objects.count() == 0


@pytest.fixture
def replica(olga, team) -> Replica:
    node = a_node("n1", gpus=1)
    a_job(olga, team)
    settle(node)
    return Replica.objects.get()


def an_old_file(replica: Replica, data: bytes) -> Path:
    """The log as an older Tessera kept it."""
    path = settings.PLATFORM.var / file_name(stream_name(replica))
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path


def test_a_file_of_an_older_tessera_is_read_and_grows(replica):
    path = an_old_file(replica, b"old line\nnever counted")
    replica.log_bytes = 9
    assert read_log(replica, 0, 100) == b"old line\n"
    write(stream_name(replica), 9, b"new line\n")
    replica.log_bytes = 18
    assert read_log(replica, 0, 100) == b"old line\nnew line\n"
    forget_stream(stream_name(replica))
    assert delete_forgotten(10) == 1
    assert not path.exists()


def test_merging_the_end_of_an_old_file_keeps_its_beginning(replica):
    name = stream_name(replica)
    old = b"old line\n" * 150_000
    an_old_file(replica, old)
    replica.log_bytes = len(old)
    assert read_log(replica, 0, len(old)) == old
    end = len(old)
    for _ in range(40):
        end = write(name, end, b"n" * 40_000)
        merge_end(name)
    assert Segment.objects.filter(stream=name).count() < 40
    assert read(name, end) == old + b"n" * 40 * 40_000


def test_an_old_file_that_goes_on_before_it_was_read_is_whole(replica):
    an_old_file(replica, b"old line\n")
    write(stream_name(replica), 9, b"new line\n")
    replica.log_bytes = 18
    assert read_log(replica, 0, 100) == b"old line\nnew line\n"


def test_an_old_file_that_is_too_short_is_an_error(replica):
    an_old_file(replica, b"cut")
    replica.log_bytes = 9
    with pytest.raises(SizeMismatch, match="counts 9 bytes, the file has 3"):
        read_log(replica, 0, 100)


def test_an_old_file_that_cannot_be_read_is_unavailable(replica):
    path = settings.PLATFORM.var / file_name(stream_name(replica))
    path.mkdir(parents=True)  # as unreadable for root as for anyone
    replica.log_bytes = 1
    with pytest.raises(StoreUnavailable, match="Is a directory"):
        read_log(replica, 0, 100)


def test_this_process_reaches_its_own_folder():
    assert list(reachable_stores()) == [f"folder:{folder_id(settings.PLATFORM.var)}"]


def test_a_bucket_that_accepts_calls_and_never_answers_is_given_up_in_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        bucket = {"s3_bucket": "b", "s3_endpoint": endpoint, "s3_region": "us-east-1"}
        keys = {"s3_access_key": "a", "s3_secret_key": "s", "s3_timeout_seconds": 1}
        with override_settings(PLATFORM=replace(settings.PLATFORM, **bucket, **keys)):
            with pytest.raises(StoreUnavailable, match=r"[Tt]imed? ?out"):
                upload("logs/a", b"x")
            with pytest.raises(StoreUnavailable, match="a moment ago"):
                upload("logs/a", b"x")


def test_a_bucket_that_is_closed_is_unavailable_and_old_logs_in_the_folder_are_read():
    end = write("logs/old", 0, b"before the bucket\n")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    bucket = {"s3_bucket": "b", "s3_endpoint": f"http://127.0.0.1:{port}", "s3_region": "r"}
    keys = {"s3_access_key": "a", "s3_secret_key": "s"}
    with override_settings(PLATFORM=replace(settings.PLATFORM, **bucket, **keys)):
        with pytest.raises(StoreUnavailable):
            upload("logs/a", b"x")
        assert read("logs/old", end) == b"before the bucket\n"


def test_a_bucket_without_its_packages_is_refused_at_the_start(monkeypatch):
    assert store_check() == []
    monkeypatch.setattr("portal.storage.checks.find_spec", lambda name: None)
    with override_settings(PLATFORM=replace(settings.PLATFORM, s3_bucket="b")):
        assert "install.py s3" in store_check()[0].hint
