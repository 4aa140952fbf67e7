"""Volumes in containers of a real engine: what is read-only stays so, and each job sees its own."""

import contextlib
import uuid

import pytest
from docker.errors import NotFound

from agents.admission.shared_caches import SharedCache
from agents.admission.volume_roots import DriverRoot, VolumeRoot
from agents.contract.documents import RuntimeKind
from agents.contract.volumes import DesiredVolume
from agents.runtime.base import RuntimeFailure
from agents.runtime.docker_volumes import DockerVolumes
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


@pytest.fixture
def driver_root(docker_node):
    """Makes a root of the engine's own driver; its volumes are removed."""
    name = f"t{uuid.uuid4().hex[:12]}"

    def make(**options):
        return DriverRoot(name, "local", tuple(options.items()))

    yield make
    for volume in docker_node.client.volumes.list():
        if volume.name.startswith(f"tessera_{name}_"):
            with contextlib.suppress(NotFound):
                volume.remove()


def driver_runtime(docker_node, root):
    roots = VolumeRoots((root,))
    roots.use_engine(DockerVolumes(docker_node.client))
    assert [one.driver for one in roots.offered()] == ["local"]
    return docker_node.runtime(with_volumes(no_grant, roots, RuntimeKind.DOCKER))


def driver_volume(root, name, *, read_only=False):
    return (DesiredVolume("data", root.name, name, "/data", read_only),)


@pytest.mark.slow
def test_a_volume_of_a_driver_outlives_its_job_and_is_not_that_of_another(
    docker_node, driver_root, root
):
    """Bind mounts by the engine's own driver, one folder for each volume."""
    kept = driver_root(type="none", o="bind", device=f"{root}/{{volume}}")
    runtime = driver_runtime(docker_node, kept)
    watch = Watch(runtime)
    said = []
    for name, read_only in (("a", False), ("a", True), ("b", False)):
        replica = a_replica(LOOK, volumes=driver_volume(kept, name, read_only=read_only))
        go(runtime, replica)
        assert watch.ended(replica).exit_code == 0
        said.append(whole_log(runtime, replica.id).decode().splitlines())
        runtime.remove(replica.id)
    assert said == [
        ["in it: ['of-a']", "written"],
        ["in it: ['new', 'of-a']", "refused: Read-only file system"],
        ["in it: ['of-b']", "written"],
    ]
    made = docker_node.client.volumes.get(f"tessera_{kept.name}_a")
    assert made.attrs["Labels"] == {"tessera.volume": f"{kept.name}/a"}
    assert made.attrs["Options"]["device"] == f"{root}/a"


@pytest.mark.slow
def test_the_policys_options_hold_and_other_ones_are_not_taken_for_them(docker_node, driver_root):
    memory = driver_root(type="tmpfs", device="tmpfs", o="size=1m,mode=1777")
    runtime = driver_runtime(docker_node, memory)
    fill = """
try:
    open("/data/large", "wb").write(bytes(2 << 20))
except OSError as error:
    print(error.strerror)
"""
    replica = a_replica(fill, volumes=driver_volume(memory, "scratch"))
    go(runtime, replica)
    assert Watch(runtime).ended(replica).exit_code == 0
    assert whole_log(runtime, replica.id).decode().strip() == "No space left on device"
    runtime.remove(replica.id)
    larger = driver_runtime(docker_node, driver_root(type="tmpfs", device="tmpfs", o="mode=1777"))
    with pytest.raises(RuntimeFailure, match="another driver or other options") as caught:
        larger.prepare(a_replica(volumes=driver_volume(memory, "scratch")), ())
    assert caught.value.code == "volume"
