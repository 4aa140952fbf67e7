"""Code of a job from git's own server, on loopback behind TLS."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from agents.contract.documents import DesiredReplica
from agents.contract.git_source import DesiredGitCode
from agents.git_code.fetching import GitCode, GitLimits
from agents.git_code.program import find_git
from agents.runtime.base import RuntimeFailure
from agents.workspace.folders import ReplicaFolders, folders_below
from tests.support.git_server import (
    GitServer,
    a_repository,
    commit_files,
    git,
    serving_git,
)

pytestmark = pytest.mark.skipif(not find_git(), reason="needs git 2.37 or newer")
TRAIN = b"print('train')\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return a_repository(tmp_path / "root" / "app.git", {"train.py": TRAIN, "tools/run.sh": b"#!\n"})


@pytest.fixture
def server(tmp_path: Path, repository: Path):
    with serving_git(tmp_path / "root", tmp_path) as running:
        yield running


@pytest.fixture
def folders(tmp_path: Path) -> ReplicaFolders:
    made = folders_below(tmp_path / "work" / "r1")
    made.code.mkdir(parents=True)
    return made


def code_of(server: GitServer, tmp_path: Path, **fields) -> GitCode:
    """A node that allows this server, whose address may be that of this machine."""
    whole = {
        "hosts": (server.endpoint,),
        "key_file": lambda replica, name: tmp_path / "keys" / name,
        "ca_file": server.ca_file,
        "resolve": lambda host, port: ["127.0.0.1"],
        "address_problem": lambda address: "",
        "limits": GitLimits(seconds=60),
    }
    return GitCode(**whole | fields)


def a_replica(source: str, **fields) -> DesiredReplica:
    return DesiredReplica("r1", "j1", code_git=DesiredGitCode(source, **fields))


def names(folders: ReplicaFolders) -> list[str]:
    found = (path for path in folders.code.rglob("*") if not path.is_dir())
    return sorted(str(path.relative_to(folders.code)) for path in found)


def why_not(code: GitCode, replica: DesiredReplica, folders: ReplicaFolders) -> RuntimeFailure:
    with pytest.raises(RuntimeFailure) as failed:
        code.fetch(replica, folders)
    assert failed.value.message.text == failed.value.sentence, "people read it in their language"
    assert sorted(path.name for path in folders.code.parent.iterdir()) == ["code"]
    return failed.value


def test_its_code_is_the_commit_of_the_default_branch(server, repository, folders, tmp_path):
    (folders.code / "left of an earlier try").write_bytes(b"")
    commit = code_of(server, tmp_path).fetch(a_replica(server.source("app.git")), folders)
    assert commit == git(repository, "rev-parse", "main")
    assert names(folders) == ["tools/run.sh", "train.py"]
    assert (folders.code / "train.py").read_bytes() == TRAIN
    assert os.access(folders.code / "tools/run.sh", os.X_OK)
    assert not os.access(folders.code / "train.py", os.X_OK)
    assert sorted(path.name for path in folders.code.parent.iterdir()) == ["code"]


def test_a_branch_a_tag_and_a_commit_can_be_named(server, repository, folders, tmp_path):
    first = git(repository, "rev-parse", "main")
    git(repository, "tag", "--annotate", "v1", "--message=v1")
    git(repository, "switch", "--quiet", "--create", "feature/x")
    second = commit_files(repository, {"new.py": b"new"})
    code = code_of(server, tmp_path)
    found = {
        ref: code.fetch(a_replica(server.source("app.git", ref)), folders)
        for ref in ("main", "v1", "feature/x", first)
    }
    assert found == {"main": first, "v1": first, "feature/x": second, first: first}


def test_a_later_attempt_has_the_same_commit_though_the_branch_moved(
    server, repository, folders, tmp_path
):
    first = git(repository, "rev-parse", "main")
    commit_files(repository, {"train.py": b"newer"})
    replica = a_replica(server.source("app.git", "main"), commit=first)
    assert code_of(server, tmp_path).fetch(replica, folders) == first
    assert (folders.code / "train.py").read_bytes() == TRAIN


def test_a_commit_that_is_gone_is_not_replaced_by_another(server, folders, tmp_path):
    replica = a_replica(server.source("app.git", "main"), commit="0" * 39 + "1")
    assert why_not(code_of(server, tmp_path), replica, folders).code == "git_unfetched"
    assert names(folders) == []


def test_links_submodules_and_odd_names_are_left_out(server, repository, folders, tmp_path):
    (repository / "link").symlink_to("/etc/passwd")
    (repository / "folder").symlink_to("/etc")
    (repository / os.fsdecode(b"\xff.py")).write_bytes(b"not UTF-8")
    inner = a_repository(tmp_path / "root" / "inner.git", {"inner.py": b"inner"})
    url = f"https://{server.endpoint}/inner.git"
    commit = git(inner, "rev-parse", "main")
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{commit},sub")
    commit_files(repository, {".gitmodules": f'[submodule "sub"]\npath=sub\nurl={url}\n'.encode()})
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{commit},sub")
    git(repository, "commit", "--quiet", "--amend", "--no-edit")
    assert code_of(server, tmp_path).fetch(a_replica(server.source("app.git")), folders)
    assert names(folders) == [".gitmodules", "tools/run.sh", "train.py"]
    assert not any("inner" in path for _, path, _ in server.calls)


def test_filters_of_the_repository_and_hooks_do_not_run(server, repository, folders, tmp_path):
    attributes = b"*.py filter=lfs ident eol=crlf export-subst\n"
    commit_files(repository, {"id.py": b"$Id$\n$Format:%H$\n"})
    commit_files(repository, {".gitattributes": attributes})
    code_of(server, tmp_path).fetch(a_replica(server.source("app.git")), folders)
    assert (folders.code / "id.py").read_bytes() == b"$Id$\n$Format:%H$\n"


def test_a_token_signs_in_and_is_no_argument(server, folders, tmp_path, monkeypatch):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "TOKEN").write_text("ada:glpat-0123456789\n")
    server.account = "ada:glpat-0123456789"
    code, source = code_of(server, tmp_path), server.source("private/app.git")
    assert code.fetch(a_replica(source, key="TOKEN"), folders)
    assert names(folders) == ["tools/run.sh", "train.py"]
    refused = why_not(code, a_replica(source), folders)
    assert refused.code == "git_unfetched"
    (tmp_path / "keys" / "TOKEN").write_text("wrong-0123456789")
    refused = why_not(code, a_replica(source, key="TOKEN"), folders)
    assert "wrong" not in refused.sentence


def test_a_token_of_several_lines_adds_no_header(server, folders, tmp_path):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "TOKEN").write_text("a\r\nX-Injected: 1")
    replica = a_replica(server.source("app.git"), key="TOKEN")
    assert "TOKEN is no token" in why_not(code_of(server, tmp_path), replica, folders).sentence
    assert server.calls == []


def test_a_host_that_is_not_on_the_list_is_not_asked(server, folders, tmp_path):
    code = code_of(server, tmp_path, hosts=("github.com", server.host))
    refused = why_not(code, a_replica(server.source("app.git")), folders)
    assert (refused.code, server.endpoint in refused.sentence) == ("git_forbidden", True)
    assert server.calls == []


@pytest.mark.parametrize("also", ["127.0.0.1", "169.254.169.254", "fe80::1%eth0", "::ffff:7f00:1"])
def test_a_name_that_leads_to_this_machine_is_refused(server, folders, tmp_path, also):
    real = GitCode((), lambda *_: tmp_path).address_problem
    resolve = lambda host, port: ["140.82.112.3", also]  # noqa: E731
    code = code_of(server, tmp_path, resolve=resolve, address_problem=real)
    refused = why_not(code, a_replica(server.source("app.git")), folders)
    assert refused.code == "git_forbidden"
    assert server.calls == []


def test_git_connects_to_the_address_that_was_checked(server, folders, tmp_path):
    """The name is that of no host at all: git itself could not resolve it."""
    asked = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return ["127.0.0.1"]

    code = code_of(server, tmp_path, resolve=resolve)
    assert code.fetch(a_replica(server.source("app.git")), folders)
    assert asked == [("git.example", server.port)], "once: it may mean another address next time"


def test_a_redirect_is_not_followed(server, folders, tmp_path):
    for elsewhere in (f"https://{server.endpoint}", "http://169.254.169.254", "file:///etc"):
        server.elsewhere = elsewhere
        code, source = code_of(server, tmp_path), server.source("redirect/app.git")
        assert why_not(code, a_replica(source), folders).code == "git_unfetched"
    assert all(path.startswith("/redirect/") for _, path, _ in server.calls)


def test_a_server_without_a_known_certificate_is_refused(server, folders, tmp_path):
    code = code_of(server, tmp_path, ca_file="")
    assert why_not(code, a_replica(server.source("app.git")), folders).code == "git_unfetched"
    assert server.calls == []


def test_a_repository_or_a_ref_that_is_not_there_is_named(server, folders, tmp_path):
    code = code_of(server, tmp_path)
    refused = why_not(code, a_replica(server.source("other.git")), folders)
    assert "other.git" in refused.sentence
    refused = why_not(code, a_replica(server.source("app.git", "nowhere")), folders)
    assert "nowhere" in refused.sentence


def test_what_a_server_says_is_shown_as_plain_text(server, folders, tmp_path):
    code = code_of(server, tmp_path)
    refused = why_not(code, a_replica(server.source("other.git")), folders)
    assert refused.sentence.isprintable()
    assert len(refused.sentence) < 1_024


def test_a_pack_beyond_the_limit_ends_the_fetch(server, repository, folders, tmp_path):
    commit_files(repository, {"large.bin": os.urandom(4 << 20)})
    code = code_of(server, tmp_path, limits=GitLimits(60, pack_bytes=1 << 20))
    refused = why_not(code, a_replica(server.source("app.git")), folders)
    assert refused.code == "git_too_large", refused.sentence


def test_files_beyond_the_limit_are_not_written(server, repository, folders, tmp_path):
    """A small pack of much: zeros pack a thousandfold."""
    commit_files(repository, {"zeros.bin": bytes(16 << 20)})
    code = code_of(server, tmp_path, limits=GitLimits(60, file_bytes=1 << 20))
    refused = why_not(code, a_replica(server.source("app.git")), folders)
    assert (refused.code, names(folders)) == ("git_too_large", [])


def test_trees_that_name_each_other_are_not_walked_to_their_end(
    server, repository, folders, tmp_path
):
    """Ten times ten times … the same folder: ten million files of a few hundred bytes."""
    blob = git(repository, "rev-parse", "HEAD:train.py")
    entry = f"100644 blob {blob}"
    for level in range(7):
        text = "".join(f"{entry}\t{n}\n" for n in range(10))
        listing = tmp_path / f"level-{level}"
        listing.write_text(text)
        with listing.open() as file:
            entry = f"040000 tree {_make_tree(repository, file.fileno())}"
    tree = entry.split()[2]
    commit = git(repository, "commit-tree", tree, "-m", "bomb")
    git(repository, "update-ref", "refs/heads/bomb", commit)
    refused = why_not(
        code_of(server, tmp_path), a_replica(server.source("app.git", "bomb")), folders
    )
    assert (refused.code, names(folders)) == ("git_too_large", [])


def test_a_server_that_never_ends_is_left(server, folders, tmp_path):
    code = code_of(server, tmp_path, limits=GitLimits(seconds=1.5))
    refused = why_not(code, a_replica(server.source("endless/app.git")), folders)
    assert refused.code in ("git_unfetched", "git_too_large")


def test_nothing_of_this_machines_configuration_counts(server, folders, tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        f'[url "https://evil.example/"]\ninsteadOf = https://{server.host}'
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_SSL_NO_VERIFY", "1")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    assert code_of(server, tmp_path).fetch(a_replica(server.source("app.git")), folders)


def test_a_key_for_ssh_is_a_file_and_the_host_must_be_known(server, folders, tmp_path):
    """Nothing listens there: what matters is that ssh is asked, and asks nobody."""
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "KEY").write_text("no key")
    code = replace(code_of(server, tmp_path), hosts=("git.example:1",))
    replica = a_replica("git+ssh://git@git.example:1/app.git", key="KEY")
    refused = why_not(code, replica, folders)
    assert refused.code == "git_unfetched"
    assert "git.example" in refused.sentence


def _make_tree(repository: Path, listing: int) -> str:
    done = subprocess.run(
        ["git", "-C", str(repository), "mktree"], stdin=listing, capture_output=True, check=True
    )
    return done.stdout.decode().strip()
