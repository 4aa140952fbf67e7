"""Which files of a volume a node sends to the portal, over a tunnel in memory."""

import asyncio
import os
import threading

import pytest

from agents.admission.policy import NodePolicy
from agents.admission.volume_roots import DriverRoot, VolumeRoot
from agents.contract.tunnel import StreamRefusal, read_target, write_target
from agents.contract.volume_files import (
    MAX_VOLUME_FILE_BYTES,
    VolumeFileTarget,
    volume_file_problem,
)
from agents.ports.tunnel_service import AgentTunnel
from agents.tunnel.link import OpenRefused
from agents.volumes import volume_files
from agents.volumes.roots import VolumeRoots
from agents.volumes.volume_files import VolumeFiles
from tests.support.memory_tunnel import tunnel

CONTENT = b'{"hidden_size": 4096}'
OTHER_USER = os.geteuid() + 4_711


@pytest.fixture
def models(tmp_path):
    """The folder of the volume, below the root at `tmp_path`, which jobs may search."""
    folder = tmp_path / "team" / "models"
    folder.mkdir(parents=True)
    for each in (tmp_path, folder.parent):
        each.chmod(0o755)
    (folder / "config.json").write_bytes(CONTENT)
    return folder


def files_at(root, user_of=None, **options):
    return VolumeFiles(VolumeRoots((VolumeRoot("nfs", str(root), **options),)), user_of)


def a_target(path="config.json", **fields):
    place = {"project": "vision", "root": "nfs", "subpath": "team/models"}
    return VolumeFileTarget(**place | {"volume_file": path} | fields)


def why_not(files, *args, **fields) -> StreamRefusal:
    with pytest.raises(OpenRefused) as refused:
        files.read(a_target(*args, **fields))
    return refused.value.why


def test_a_file_goes_whole_through_the_tunnel_and_a_refusal_as_its_code(tmp_path, models):
    (models / "full.json").write_bytes(b"x" * MAX_VOLUME_FILE_BYTES)
    (models / "empty.json").write_bytes(b"")
    service = AgentTunnel(None, None, None, None, files_at(tmp_path))
    served = asyncio.Semaphore(0)

    async def serve(incoming):
        try:
            await service._serve(incoming)
        finally:
            served.release()

    async def content(portal, path):
        stream = await portal.open(write_target(a_target(path)))
        await stream.end()
        data = bytearray()
        while piece := await stream.read():
            data += piece
        return bytes(data)

    async def scenario():
        async with tunnel(serve) as (portal, agent, _):
            assert await content(portal, "config.json") == CONTENT
            assert await content(portal, "empty.json") == b""
            assert await content(portal, "full.json") == b"x" * MAX_VOLUME_FILE_BYTES
            with pytest.raises(OpenRefused) as refused:
                await content(portal, "none.json")
            assert refused.value.why is StreamRefusal.FILE_MISSING
            # One that is given up while its content is on the way costs nothing.
            stream = await portal.open(write_target(a_target("full.json")))
            stream.abort()
            assert await content(portal, "config.json") == CONTENT
            for _ in range(6):
                await served.acquire()
            assert portal.stream_count == agent.stream_count == 0

    asyncio.run(scenario())


def test_links_are_followed_as_far_as_the_volume(tmp_path, models):
    """As a cache of Hugging Face has them."""
    blobs, snapshot = models / "hub" / "blobs", models / "hub" / "snapshots" / "abc"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    (blobs / "0123").write_bytes(CONTENT)
    (snapshot / "config.json").symlink_to("../../blobs/0123")
    (models / "newest").symlink_to("hub/snapshots/abc")
    files = files_at(tmp_path)
    assert files.read(a_target("hub/snapshots/abc/config.json")) == CONTENT
    assert files.read(a_target("newest/config.json")) == CONTENT
    (tmp_path / "team" / "secret.json").write_bytes(b"secret")
    outward = {
        "up.json": "../secret.json",
        "in-and-up.json": "hub/../../secret.json",
        "absolute.json": str(models / "config.json"),
        "circle.json": "circle.json",
        "folder.json": "hub/..",
    }
    for name, target in outward.items():
        (models / name).symlink_to(target)
        assert why_not(files, name) is StreamRefusal.NOT_A_FILE, name
    assert why_not(files, "../secret.json") is StreamRefusal.FAILED


def test_only_regular_files_are_opened_and_none_waited_for(tmp_path, models):
    os.mkfifo(models / "pipe.json")
    (models / "folder.json").mkdir()
    files = files_at(tmp_path)
    assert why_not(files, "pipe.json") is StreamRefusal.NOT_A_FILE
    assert why_not(files, "folder.json") is StreamRefusal.NOT_A_FILE
    for missing in ("config.json/config.json", "none/config.json", "x" * 300 + ".json"):
        assert why_not(files, missing) is StreamRefusal.FILE_MISSING
    (models / "large.json").write_bytes(b"x" * (MAX_VOLUME_FILE_BYTES + 1))
    assert why_not(files, "large.json") is StreamRefusal.FILE_TOO_LARGE


def test_a_file_deeper_than_a_way_may_be_is_not_searched(tmp_path, models):
    deep = models.joinpath(*["a"] * 65)
    deep.mkdir(parents=True)
    (deep / "config.json").write_bytes(CONTENT)
    files = files_at(tmp_path)
    assert why_not(files, "a/" * 65 + "config.json") is StreamRefusal.NOT_A_FILE


def test_a_file_that_jobs_of_the_project_may_not_read_is_not_read_for_it(tmp_path, models):
    """Although the agent could."""
    files = files_at(tmp_path, {"vision": OTHER_USER, "speech": OTHER_USER + 1}.__getitem__)
    models.chmod(0o755)
    assert files.read(a_target()) == CONTENT
    (models / "config.json").chmod(0o640)
    assert why_not(files) is StreamRefusal.FILE_FORBIDDEN
    (models / "config.json").chmod(0o644)
    (models / "closed").mkdir(mode=0o700)
    (models / "closed" / "config.json").write_bytes(CONTENT)
    assert why_not(files, "closed/config.json") is StreamRefusal.FILE_FORBIDDEN
    models.chmod(0o700)
    assert why_not(files) is StreamRefusal.FILE_FORBIDDEN
    assert files_at(tmp_path).read(a_target()) == CONTENT


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")
def test_each_project_reads_its_own_files(tmp_path, models):
    users = {"vision": OTHER_USER, "speech": OTHER_USER + 1}
    files = files_at(tmp_path, users.__getitem__)
    os.chown(models, OTHER_USER, OTHER_USER)
    os.chown(models / "config.json", OTHER_USER, OTHER_USER)
    models.chmod(0o700)
    (models / "config.json").chmod(0o600)
    assert files.read(a_target()) == CONTENT
    assert why_not(files, project="speech") is StreamRefusal.FILE_FORBIDDEN


def test_what_the_policy_does_not_offer_is_away(tmp_path, models):
    files = files_at(tmp_path)
    assert why_not(files, root="other") is StreamRefusal.VOLUME_AWAY
    assert why_not(files, subpath="team/none") is StreamRefusal.VOLUME_AWAY
    assert why_not(files, subpath="../team") is StreamRefusal.FAILED
    assert why_not(files_at(tmp_path, mounted=True)) is StreamRefusal.VOLUME_AWAY
    driver = VolumeFiles(VolumeRoots((DriverRoot("nfs", "local"),)))
    assert why_not(driver, subpath="models") is StreamRefusal.VOLUME_AWAY


def test_reads_that_hang_keep_no_more_threads_than_their_root_has(tmp_path, models, monkeypatch):
    hanging, begun = threading.Event(), threading.Semaphore(0)

    def hang(*_):
        begun.release()
        hanging.wait()
        return CONTENT

    monkeypatch.setattr(volume_files, "read_volume_file", hang)
    files = files_at(tmp_path)
    try:
        monkeypatch.setattr(volume_files, "READ_SECONDS", 0.01)
        for _ in range(volume_files.MAX_OF_ROOT):
            assert why_not(files) is StreamRefusal.VOLUME_AWAY
            assert begun.acquire(timeout=60)
        # Refused at once, and not after this time.
        monkeypatch.setattr(volume_files, "READ_SECONDS", 600.0)
        assert why_not(files) is StreamRefusal.VOLUME_AWAY
        assert not begun.acquire(blocking=False)
    finally:
        hanging.set()


@pytest.mark.parametrize(
    "path", ["config.yaml", ".json", "a/.json", "/etc/x.json", "../x.json", "a//b.json", "a\0.json"]
)
def test_paths_that_name_no_file_are_refused(path):
    assert volume_file_problem(path)


def test_a_target_is_read_as_it_was_written():
    target = a_target("模型/config.json")
    assert read_target(write_target(target)) == target
    assert "模型".encode() in write_target(target)


def test_the_user_of_a_project_is_that_of_its_containers():
    assert NodePolicy(project_users="off", user=7).user_of_project("vision") == 7
    assert NodePolicy().user_of_project("vision") >= 1_900_000_000
