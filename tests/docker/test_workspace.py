"""Where a replica works, seen from inside of containers of a real engine."""

import pytest

from agents.admission.policy import NodePolicy
from agents.runtime.grants import Grant
from tests.contract.replicas import Watch, a_replica, go, whole_log

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
