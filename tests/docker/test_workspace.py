"""Where a replica works, seen from inside of containers of a real engine."""

import json
from dataclasses import replace
from uuid import uuid4

import pytest

from agents.admission.policy import NodePolicy
from agents.contract.documents import ReplicaState
from agents.host.job_disk import DiskReserve, JobDisk
from agents.runtime.grants import Grant
from tests.contract.replicas import UNTIL_TOLD, Watch, a_replica, go, whole_log
from tests.support.engine_node import EngineNode
from tests.support.engine_node import a_replica as wanted_replica

pytestmark = pytest.mark.docker

# In folders that were memory once, and counted as the job's.
WRITE_MORE_THAN_ITS_MEMORY = """
import os
for folder in (os.environ["TMPDIR"], "/var/tmp", os.environ["TESSERA_OUTPUT_DIR"], "."):
    with open(os.path.join(folder, "large"), "wb") as file:
        for _ in range(64):
            file.write(b"x" * (1 << 20))
print("written")
"""
# As a program finds its user without any variable.
WHO = """
import os, pwd, grp
me = pwd.getpwuid(os.getuid())
print(me.pw_name, me.pw_dir, grp.getgrgid(os.getgid()).gr_name, os.access("/etc/passwd", os.W_OK))
"""


def test_writing_more_than_its_memory_ends_no_job(docker_node):
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    replica = a_replica(WRITE_MORE_THAN_ITS_MEMORY, memory_mib=64)
    go(runtime, replica)
    assert watch.ended(replica).exit_code == 0
    assert whole_log(runtime, replica.id) == b"written\n"


def test_a_program_finds_its_user(docker_node):
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    replica = a_replica(WHO, user="ada")
    go(runtime, replica)
    watch.ended(replica)
    assert whole_log(runtime, replica.id) == b"ada /workspace ada False\n"


SHOW_USER = "import os; print(os.getuid(), os.getgid())"
LEAKED = ("scratch", "output", "checkpoint", "metrics")
READ_THE_OTHER = f"""
import os
for name in {LEAKED}:
    try:
        print("read", os.listdir("/other/" + name))
    except PermissionError:
        print("closed")
"""


def test_a_project_cannot_open_the_folders_of_another_even_if_it_reached_them(docker_node):
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    theirs = a_replica(SHOW_USER, project="vision")
    go(runtime, theirs)
    watch.ended(theirs)
    home = runtime.workspaces.home(theirs.id)
    # As if something had led out of its own folders: no job gets such a mount.
    leak = tuple((str(home / name), f"/other/{name}") for name in LEAKED)
    reaching = docker_node.runtime(lambda *_: Grant(mounts=leak))
    mine = a_replica(READ_THE_OTHER, project="speech")
    go(reaching, mine)
    assert Watch(reaching).ended(mine).exit_code == 0
    assert whole_log(reaching, mine.id).split() == [b"closed"] * len(LEAKED)
    users = whole_log(runtime, theirs.id).split()
    assert users[0] == users[1] == str(NodePolicy().user_of(theirs)).encode()


STOCK_PROGRAM = """
import os, pathlib, sys
pathlib.Path.home().joinpath(".cache", "pip").mkdir(parents=True)
print(sys.argv[1:], os.getcwd(), os.access(".", os.W_OK), os.environ.get("BAKED"))
"""


@pytest.fixture
def stock_image(docker_node, docker_image):
    """As images of registries are: an entrypoint with arguments, a working directory of root's,
    variables of its own."""
    name, words = f"tessera-stock-{uuid4().hex[:12]}", ["python3", "-c", STOCK_PROGRAM, "--baked"]
    container = docker_node.client.containers.create(docker_image, ["true"])
    changes = ["WORKDIR /srv/app", "ENV HOME=/root BAKED=yes", f"ENTRYPOINT {json.dumps(words)}"]
    container.commit(repository=name, tag="1", changes=[*changes, 'CMD ["--help"]'])
    container.remove()
    yield f"{name}:1"
    docker_node.client.images.remove(f"{name}:1", force=True)


def test_a_stock_image_runs_as_it_is_or_with_a_program_of_the_users(docker_node, stock_image):
    runtime = docker_node.runtime()
    watch = Watch(runtime)
    as_it_is = a_replica(image=stock_image, launcher="entrypoint", command=("--port", "8000"))
    replaced = a_replica("import os; print(os.getcwd())", image=stock_image)
    for replica, said in (
        (as_it_is, "['--baked', '--port', '8000'] /srv/app False yes"),
        (replaced, "/workspace"),
    ):
        go(runtime, replica)
        assert watch.ended(replica).exit_code == 0, whole_log(runtime, replica.id)
        assert whole_log(runtime, replica.id).decode().strip() == said


FILL_ITS_DISK = """
import os, threading
with open(os.path.join(os.environ["TMPDIR"], "large"), "wb") as file:
    for _ in range(48):
        file.write(b"x" * (1 << 20))
threading.Event().wait()
"""


def test_a_job_beyond_its_disk_ends_by_it_and_its_neighbour_lives(
    docker_engine, docker_image, tmp_path, monkeypatch
):
    monkeypatch.setenv("DOCKER_HOST", docker_engine)
    node = EngineNode(tmp_path / "var")
    node.loop.hardware.job_disk = JobDisk(tmp_path, DiskReserve())
    node.loop.hardware.refresh()
    neighbour = wanted_replica("r-lives", docker_image, ("python3", "-c", UNTIL_TOLD))
    full = wanted_replica("r-full", docker_image, ("python3", "-c", FILL_ITS_DISK))
    node.start()
    try:
        node.want(replace(neighbour, disk_mib=32), replace(full, disk_mib=32))
        failed = node.until_state(full, ReplicaState.FAILED)
        assert failed.code == "disk_full"
        assert node.reported(neighbour).state is ReplicaState.RUNNING
    finally:
        node.end()
