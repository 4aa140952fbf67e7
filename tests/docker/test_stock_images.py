"""Images as registries have them run as they are, and a job's disk is its own on a real engine."""

import json
import shutil
from dataclasses import replace

import pytest

from agents.contract.documents import ReplicaState
from agents.host.job_disk import DiskReserve, JobDisk
from tests.contract.replicas import UNTIL_TOLD, Watch, a_replica, go, whole_log
from tests.environment import debian
from tests.environment.base_images import import_image
from tests.environment.docker_engine import engine_client
from tests.environment.levels import skip_without
from tests.environment.stock_image import OPEN_FOLDER, stock_image
from tests.support.engine_node import EngineNode
from tests.support.engine_node import a_replica as wanted_replica

pytestmark = pytest.mark.docker
MIB_PER_GIB = 1 << 10


@pytest.fixture(scope="module")
def stock(docker_engine):
    skip_without(debian.PIP)
    with engine_client(docker_engine) as client:
        name = import_image(client, stock_image())
        yield name
        client.images.remove(name, force=True)


@pytest.mark.slow
@pytest.mark.parametrize("is_read_only", [False, True])
def test_a_stock_image_runs_as_it_is(docker_node, stock, is_read_only):
    """Its user, home and working directory are root's, and the job is not root."""
    runtime = docker_node.runtime(read_only_images=is_read_only)
    watch = Watch(runtime)
    fields = {"image": stock, "launcher": "entrypoint", "user": "ada"}
    as_it_is = a_replica(command=(), memory_mib=256, cpu_milli=2_000, **fields)
    other = a_replica(command=("--port", "8000"), **fields)
    said = []
    for replica in (as_it_is, other):
        go(runtime, replica)
        assert watch.ended(replica).exit_code == 0, whole_log(runtime, replica.id)
        said.append(json.loads(whole_log(runtime, replica.id)))
    assert said[0] == {
        "arguments": ["--baked", "--help"],
        "folder": "/srv/app",
        "may_write_there": False,
        "own_variable": "yes",
        "is_cached": True,
        "warnings": [],
        "used": ["hello", "ada"],
        "errors": [],
    }
    assert said[1] == ["--baked", "--port", "8000"]


WRITE_EVERYWHERE = f"""
import os, tempfile
own = [os.environ[name] for name in
       ("HOME", "TMPDIR", "TESSERA_OUTPUT_DIR", "TESSERA_CHECKPOINT_DIR")]
for folder in (*own, "/var/tmp", "/dev/shm", os.getcwd(), {OPEN_FOLDER!r}):
    try:
        tempfile.NamedTemporaryFile(dir=folder).close()
    except OSError as error:
        print(folder, error.strerror)
print("done")
"""


@pytest.mark.slow
def test_where_the_policy_says_so_a_job_writes_to_its_own_folders_alone(docker_node, stock):
    """The image has a folder that is open to everybody."""
    said = {}
    for is_read_only in (False, True):
        runtime = docker_node.runtime(read_only_images=is_read_only)
        replica = a_replica(WRITE_EVERYWHERE, image=stock)
        go(runtime, replica)
        assert Watch(runtime).ended(replica).exit_code == 0
        said[is_read_only] = whole_log(runtime, replica.id).decode().splitlines()
    assert said == {False: ["done"], True: [f"{OPEN_FOLDER} Read-only file system", "done"]}


def test_a_program_of_the_users_replaces_that_of_a_stock_image(docker_node, stock):
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    replica = a_replica("import os; print(os.getcwd())", image=stock)
    go(runtime, replica)
    watch.ended(replica)
    assert whole_log(runtime, replica.id) == b"/workspace\n"


# In memory as large as the job's, until it is written.
WRITE = """
import os, threading
with open(os.path.join("{folder}", "large"), "wb") as file:
    for _ in range({mib}):
        file.write(b"x" * (1 << 20))
    file.flush()
    os.fsync(file.fileno())
{then}
"""
WAIT = "threading.Event().wait()"
# Of cgroup v2 or v1: with the page cache that is charged to the job.
SHOW_PEAK = """
for path in ("memory.peak", "memory/memory.max_usage_in_bytes"):
    if os.path.exists("/sys/fs/cgroup/" + path):
        print("peak", int(open("/sys/fs/cgroup/" + path).read()) >> 20)
"""


def writer(folder, mib, then=WAIT):
    return ("python3", "-c", WRITE.format(folder=folder, mib=mib, then=then))


@pytest.fixture
def node(docker_engine, docker_image, tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", docker_engine)
    node = EngineNode(tmp_path / "var")
    node.loop.hardware.job_disk = JobDisk(tmp_path, DiskReserve())
    node.loop.hardware.refresh()
    node.start()
    yield node
    node.end()


def test_a_job_beyond_its_disk_ends_by_it_and_its_neighbour_lives(node, docker_image, stock):
    """Wherever it writes: also where its image has an open folder."""
    neighbour = wanted_replica("r-lives", docker_image, ("python3", "-c", UNTIL_TOLD))
    fillers = [
        wanted_replica("r-full", docker_image, writer("/tmp", 48)),
        wanted_replica("r-layer", stock, writer(OPEN_FOLDER, 48)),
    ]
    node.want(*(replace(each, disk_mib=32) for each in (neighbour, *fillers)))
    for full in fillers:
        assert node.until_state(full, ReplicaState.FAILED).code == "disk_full"
    assert node.reported(neighbour).state is ReplicaState.RUNNING


@pytest.mark.slow
def test_a_job_writes_three_times_its_memory_and_one_beyond_its_disk_ends(
    node, docker_image, tmp_path
):
    if shutil.disk_usage(tmp_path).free < 12 << 30:
        pytest.skip("less than 12 GiB of disk are free")
    written = 3 * MIB_PER_GIB
    large = wanted_replica("r-large", docker_image, writer("/workspace", written, SHOW_PEAK))
    full = wanted_replica("r-full", docker_image, writer("/output", written))
    neighbour = wanted_replica("r-lives", docker_image, ("python3", "-c", UNTIL_TOLD))
    node.want(
        replace(large, memory_mib=MIB_PER_GIB, disk_mib=4 * MIB_PER_GIB),
        replace(full, memory_mib=MIB_PER_GIB, disk_mib=MIB_PER_GIB),
        replace(neighbour, disk_mib=32),
    )
    assert node.until_state(full, ReplicaState.FAILED).code == "disk_full"
    assert node.until_state(large, ReplicaState.EXITED).exit_code == 0
    peak = int(node.runtime.log(large.id, 0, 100).split()[1])
    # The cache of what it wrote counted as its memory, up to its limit, and ended nothing.
    assert 900 <= peak <= MIB_PER_GIB
    assert node.reported(neighbour).state is ReplicaState.RUNNING
