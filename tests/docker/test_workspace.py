"""Where a replica works, seen from inside of containers of a real engine."""

import pytest

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
