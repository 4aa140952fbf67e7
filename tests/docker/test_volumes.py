"""Volumes in containers of a real engine: what is read-only stays so, and each job sees its own."""

import pytest

from agents.admission.shared_caches import SharedCache
from agents.admission.volume_roots import VolumeRoot
from agents.contract.documents import RuntimeKind
from agents.contract.volumes import DesiredVolume
from agents.runtime.base import RuntimeFailure
from agents.runtime.grants import no_grant
from agents.volumes.caches import SharedCaches
from agents.volumes.grants import with_caches, with_volumes
from agents.volumes.roots import VolumeRoots
from tests.contract.replicas import Watch, a_replica, go, whole_log

pytestmark = pytest.mark.docker

LOOK = """
import os
folder = os.environ["TESSERA_VOLUME_DATA"]
print("in it:", sorted(os.listdir(folder)))
try:
    open(f"{folder}/new", "w").write("new")
    print("written")
except OSError as error:
    print("refused:", error.strerror)
"""
# Everything that this job can reach, its own links included.
SEARCH = """
import os
os.symlink("../../b", "/data/up")
try:
    print("through a link:", os.listdir("/data/up"))
except OSError as error:
    print("through a link:", error.strerror)
found = [f"{at}/{name}" for at, _, names in os.walk("/") if not at.startswith(("/proc", "/sys"))
         for name in names if name == "of-b"]
print("found:", found)
"""


@pytest.fixture
def root(tmp_path):
    """With a folder of each of two projects, which their jobs may write."""
    folder = tmp_path / "srv"
    for team in ("a", "b"):
        (folder / team).mkdir(parents=True)
        (folder / team / f"of-{team}").write_text("secret")
        (folder / team).chmod(0o777)
    folder.chmod(0o755)
    return folder


def runtime_at(docker_node, root):
    roots = VolumeRoots((VolumeRoot("srv", str(root)),))
    return docker_node.runtime(with_volumes(no_grant, roots, RuntimeKind.DOCKER))


def data_of(team, *, read_only):
    return (DesiredVolume("data", "srv", team, "/data", read_only),)


def test_read_only_holds_and_read_write_writes_to_the_node(docker_node, root):
    runtime = runtime_at(docker_node, root)
    watch = Watch(runtime)
    said = {}
    for read_only in (True, False):
        replica = a_replica(LOOK, volumes=data_of("a", read_only=read_only))
        go(runtime, replica)
        assert watch.ended(replica).exit_code == 0
        said[read_only] = whole_log(runtime, replica.id).decode().splitlines()
    assert said[True] == ["in it: ['of-a']", "refused: Read-only file system"]
    assert said[False] == ["in it: ['of-a']", "written"]
    assert (root / "a" / "new").read_text() == "new"


def test_a_job_of_one_project_finds_nothing_of_the_volume_of_another(docker_node, root):
    runtime = runtime_at(docker_node, root)
    watch = Watch(runtime)
    replica = a_replica(SEARCH, volumes=data_of("a", read_only=False))
    go(runtime, replica)
    assert watch.ended(replica).exit_code == 0
    assert whole_log(runtime, replica.id).decode().splitlines() == [
        "through a link: No such file or directory",
        "found: []",
    ]
    # What it left there leads nowhere for the next one either.
    with pytest.raises(RuntimeFailure, match="links are not followed"):
        runtime.prepare(a_replica(volumes=data_of("a/up", read_only=True)), ())


READ_CACHE = """
import os
found = sorted(os.listdir("/caches")) if os.path.exists("/caches") else ""
print(os.environ.get("HF_HUB_CACHE"), found)
if os.path.exists("/caches/models"):
    print(open("/caches/models/config").read())
    try:
        open("/caches/models/config", "a")
    except OSError as error:
        print(error.strerror)
"""


def test_jobs_of_its_projects_read_a_shared_cache_and_others_do_not_find_it(docker_node, tmp_path):
    hub = tmp_path / "hub"
    hub.mkdir(mode=0o755)
    (hub / "config").write_text("weights")
    (hub / "config").chmod(0o666)
    folder = VolumeRoot("models", str(hub), read_only=True)
    caches = SharedCaches((SharedCache(folder, "HF_HUB_CACHE", ("vision",)),))
    runtime = docker_node.runtime(with_caches(no_grant, caches, RuntimeKind.DOCKER))
    watch = Watch(runtime)
    said = {}
    for project in ("vision", "speech"):
        replica = a_replica(READ_CACHE, project=project)
        go(runtime, replica)
        assert watch.ended(replica).exit_code == 0
        said[project] = whole_log(runtime, replica.id).decode().splitlines()
    assert said["vision"] == [
        "/caches/models ['models']",
        "weights",
        "Read-only file system",
    ]
    assert said["speech"] == ["None "]


def test_a_volume_that_vanished_fails_the_start_with_a_sentence_and_makes_no_folder(
    docker_node, root
):
    runtime = runtime_at(docker_node, root)
    replica = a_replica(LOOK, volumes=data_of("a", read_only=False))
    runtime.prepare(replica, ())
    (root / "a").rename(root / "elsewhere")
    with pytest.raises(RuntimeFailure) as caught:
        go(runtime, replica)
    assert caught.value.code == "volume"
    assert caught.value.sentence == f"volume data: there is no folder {root}/a"
    assert not (root / "a").exists(), "the engine would have made an empty one"
    assert (root / "elsewhere" / "of-a").read_text() == "secret"
