"""The folders in which replicas work: whose they are, and that nothing of them stays."""

import os
import re
import stat

import pytest

from agents.workspace.job_user import group_entries, home_name, login_name, passwd_entries
from agents.workspace.workspaces import BIN, Workspaces
from tests.unit.agents.documents import a_replica

USER = 1_900_000_007
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def workspaces(tmp_path):
    return Workspaces(tmp_path / "work")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@root_only
def test_folders_belong_to_the_replicas_user_below_one_that_only_root_opens(workspaces):
    replica = a_replica(user="ada")
    folders = workspaces.make(replica, USER)
    for folder in folders.writable:
        assert (folder.stat().st_uid, folder.stat().st_gid) == (USER, USER), folder
    assert folders.code.stat().st_uid == 0
    assert mode(workspaces.root) == mode(workspaces.home(replica.id)) == 0o700
    passwd, group = workspaces.account_files(replica.id)
    assert f"ada:x:{USER}:{USER}::/workspace:/bin/sh" in passwd.read_text().splitlines()
    assert mode(passwd) == mode(group) == 0o644


def test_files_of_a_launcher_are_read_and_executed_and_replaced_by_the_agent_alone(workspaces):
    replica = a_replica()
    folder = workspaces.make(replica).launcher
    assert not folder.exists()
    for text in ("one", "two", "two"):
        workspaces.write_launcher_files(replica.id, {"hostfile": text})
        assert [(each.name, each.read_text()) for each in folder.iterdir()] == [("hostfile", text)]
    assert (mode(folder), mode(folder / "hostfile")) == (0o755, 0o555)


def test_made_twice_they_keep_what_is_in_them(workspaces):
    replica = a_replica()
    kept = workspaces.make(replica).scratch / "kept"
    kept.touch()
    workspaces.make(replica)
    assert kept.exists()


def test_what_a_job_left_is_removed_however_deep_and_closed_and_links_are_not_followed(
    workspaces, tmp_path
):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    replica = a_replica()
    scratch = workspaces.make(replica).scratch
    (scratch / "link").symlink_to(outside)
    (scratch / "pipe").parent.mkdir(exist_ok=True)
    os.mkfifo(scratch / "pipe")
    (scratch / b"\xff odd".decode("utf-8", "surrogateescape")).touch()
    top = os.open(scratch, os.O_RDONLY)
    for _ in range(1_500):
        os.mkdir("deep", dir_fd=top)
        below = os.open("deep", os.O_RDONLY, dir_fd=top)
        os.close(top)
        top = below
    os.fchmod(top, 0)
    os.close(top)
    workspaces.remove(replica.id)
    workspaces.remove(replica.id)
    assert [path.name for path in workspaces.root.iterdir()] == [BIN]
    assert not list((workspaces.root / BIN).iterdir())
    assert (outside / "kept").exists()


def test_leftovers_of_an_agent_that_was_killed_are_removed(workspaces):
    known, unknown = a_replica(id="r-1"), a_replica(id="r-2")
    for replica in (known, unknown):
        workspaces.make(replica)
    workspaces.keep({"r-1"})
    assert not workspaces.home("r-2").exists()
    workspaces.home("r-1").rename(workspaces.root / BIN / "half-removed")
    Workspaces(workspaces.root)
    assert not list((workspaces.root / BIN).iterdir())


@pytest.mark.parametrize(
    ("user", "name"),
    [
        ("ada", "ada"),
        ("Ada.Lovelace@example.org", "ada-lovelace"),
        ("7of9", "_7of9"),
        ("root", "job"),
        ("nobody", "job"),
        ("李雷", "job"),
        ("", "job"),
        ("a:b\nroot:x:0:0", "a-b-root-x-0-0"),
        ("x" * 150, "x" * 32),
    ],
)
def test_a_users_name_becomes_one_that_linux_takes(user, name):
    assert login_name(user) == name
    assert len(passwd_entries(USER, name).splitlines()) == 3
    assert len(group_entries(USER, name).splitlines()) == 3


def test_no_two_users_have_one_home():
    users = ("nora", "Nora", "nora@a.example", "nora@b.example", "no.ra", "no-ra", "_7of9", "7of9")
    users += ("job", "root", "nobody", "..", ".", "@", "李雷", "", "x" * 32, "x" * 33)
    homes = [home_name(user) for user in users]
    assert len(set(homes)) == len(users)
    assert homes[0] == "nora"
    for home in homes:
        assert re.fullmatch(r"[a-z_][a-z0-9_-]{0,31}(\.[0-9a-f]{12})?", home)
        # No user name is another one's folder.
        assert home in users or home_name(home) != home
