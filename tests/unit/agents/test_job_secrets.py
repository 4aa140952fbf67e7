"""Secrets of replicas on their node: where their values are, who is given them, and their end."""

import json
import os
from pathlib import Path

import pytest

from agents.contract.documents import RuntimeKind, digest
from agents.contract.job_secrets import DesiredSecret, SecretForm, SecretsResponse, SecretValue
from agents.contract.registries import PullCredentialResponse, RegistryCredential
from agents.job_secrets.delivery import ReplicaSecrets, SecretsAway
from agents.job_secrets.memory import SecretMemory, file_system, secret_memory
from agents.runtime.base import RuntimeFailure
from agents.runtime.grants import no_grant
from agents.runtime.process import ProcessRuntime
from tests.contract.replicas import Watch, a_replica, go

TOKEN = "canary-0123456789"
AWKWARD = 'it\'s $HOME\n`id` "end" '
BOTH = (DesiredSecret("HF_TOKEN"), DesiredSecret("AWKWARD", SecretForm.ENV))


class Portal:
    def __init__(self, **values):
        self.values, self.calls = values, []

    def fetch(self, replica):
        self.calls.append(replica)
        found = tuple(SecretValue(name, value) for name, value in self.values.items())
        return SecretsResponse(secrets=found)


@pytest.fixture
def memory(tmp_path):
    if file_system(Path("/dev/shm")) != "tmpfs":
        pytest.skip("needs a tmpfs at /dev/shm")
    made = SecretMemory(
        Path("/dev/shm") / f"tessera-test-{tmp_path.name}-{os.getpid()}", tmp_path / "marks"
    )
    yield made
    for replica in made.marked():
        made.remove(replica)
    if made.root.is_dir():
        made.root.rmdir()


@pytest.fixture
def portal():
    return Portal(HF_TOKEN=TOKEN, AWKWARD=AWKWARD)


def test_a_secret_for_git_is_for_the_node_alone(memory, tmp_path):
    secrets = ReplicaSecrets(memory, Portal(KEY=TOKEN, HF_TOKEN="hf-0123456789").fetch)
    granted = secrets.grant(no_grant, RuntimeKind.DOCKER)
    alone = a_replica("pass", secrets=(DesiredSecret("KEY", SecretForm.GIT),))
    secrets.deliver(alone)
    assert granted(alone, ()) == no_grant(alone, ()), "the job has no folder of secrets at all"
    both = a_replica("pass", id="r-2", secrets=(*alone.secrets, DesiredSecret("HF_TOKEN")))
    secrets.deliver(both)
    given = [Path(source) for source, _ in granted(both, ()).read_only_mounts]
    seen = {path.name for folder in given for path in folder.rglob("*")}
    assert seen == {"HF_TOKEN"}
    key = secrets.git_key(both.id, "KEY")
    assert key.read_text() == TOKEN
    assert (key.stat().st_mode & 0o777, key.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    log = secrets.read_log(both.id, lambda at, n: TOKEN.encode()[at:][:n], 0, 99, is_complete=True)
    assert log == b"*" * len(TOKEN)


def test_a_process_reads_a_file_and_a_variable_and_nothing_of_them_is_on_disk(
    memory, portal, tmp_path
):
    secrets = ReplicaSecrets(memory, portal.fetch)
    home = tmp_path / "replicas"
    runtime = ProcessRuntime(home, secrets.grant(no_grant, RuntimeKind.PROCESS))
    program = (
        "import json, os\n"
        "path = os.path.join(os.environ['TESSERA_SECRETS_DIR'], 'HF_TOKEN')\n"
        "print(json.dumps([open(path).read(), os.environ['AWKWARD']]), flush=True)\n"
        "import signal; signal.pause()\n"
    )
    replica = a_replica(program, secrets=BOTH)
    watch = Watch(runtime)
    secrets.deliver(replica)
    secrets.deliver(replica)
    assert portal.calls == [replica.id]
    go(runtime, replica)
    assert json.loads(watch.says(replica, b"\n")) == [TOKEN, AWKWARD]
    files = [p for p in home.rglob("*") if p.is_file() and p.name != "log"]
    assert [path for path in files if b"canary" in path.read_bytes()] == []
    assert [path for path in files if b"it's $HOME" in path.read_bytes()] == []
    sent = secrets.read_log(
        replica.id, lambda *at: runtime.log(replica.id, *at), 0, 1_000, is_complete=False
    )
    assert TOKEN.encode() not in sent and len(sent) > len(TOKEN)
    runtime.stop(replica.id, 0)
    watch.ended(replica)
    runtime.remove(replica.id)


def test_a_container_is_given_mounts_and_a_wrapper_instead_of_values(memory, portal):
    secrets = ReplicaSecrets(memory, portal.fetch)
    granted = secrets.grant(no_grant, RuntimeKind.DOCKER)(a_replica(secrets=BOTH), ())
    assert granted.env == {"TESSERA_SECRETS_DIR": "/run/secrets"}
    assert [target for _, target in granted.read_only_mounts] == [
        "/run/secrets",
        "/run/tessera/with-environment",
    ]
    assert granted.wrapper == ("/bin/sh", "/run/tessera/with-environment")
    assert TOKEN not in str(granted)


def test_a_secret_that_is_gone_fails_the_replica_with_a_sentence_and_nothing_is_kept(memory):
    secrets = ReplicaSecrets(memory, Portal(HF_TOKEN=TOKEN).fetch)
    replica = a_replica(secrets=BOTH)
    with pytest.raises(RuntimeFailure, match="the secret AWKWARD was deleted") as failed:
        secrets.deliver(replica)
    assert failed.value.code == "secret_missing"
    assert not memory.has(replica.id)


def test_a_portal_that_is_away_is_asked_again(memory, portal):
    def away(replica):
        raise SecretsAway

    replica = a_replica(secrets=BOTH)
    with pytest.raises(SecretsAway):
        ReplicaSecrets(memory, away).deliver(replica)
    ReplicaSecrets(memory, portal.fetch).deliver(replica)
    assert memory.has(replica.id)


def test_a_later_agent_redacts_what_an_earlier_one_was_given_and_removes_it_at_the_end(
    memory, portal
):
    replica = a_replica(secrets=BOTH)
    ReplicaSecrets(memory, portal.fetch).deliver(replica)
    later = ReplicaSecrets(memory, portal.fetch)
    log = f"token {TOKEN}\n".encode()
    arguments = (replica.id, lambda offset, limit: log[offset : offset + limit], 0, 100)
    assert later.read_log(*arguments, is_complete=True) == b"token " + b"*" * len(TOKEN) + b"\n"
    later.keep({replica.id})
    assert memory.has(replica.id)
    later.keep(set())
    assert not memory.has(replica.id) and not memory.marked()
    assert later.read_log(*arguments, is_complete=True) == log


def test_after_a_restart_of_the_machine_the_rest_of_the_log_says_nothing(memory, portal):
    replica = a_replica(secrets=BOTH)
    ReplicaSecrets(memory, portal.fetch).deliver(replica)
    values = memory.folder(replica.id)
    for path in sorted(values.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    values.rmdir()
    log = f"token {TOKEN}\n".encode()
    sent = ReplicaSecrets(memory, portal.fetch).read_log(
        replica.id, lambda offset, limit: log[offset : offset + limit], 0, 100, is_complete=True
    )
    assert sent == b"*" * (len(log) - 1) + b"\n"


def test_a_folder_that_others_can_write_to_is_refused(memory, portal):
    memory.root.mkdir()
    memory.root.chmod(0o777)
    with pytest.raises(RuntimeFailure, match="others can write"):
        ReplicaSecrets(memory, portal.fetch).deliver(a_replica(secrets=BOTH))
    memory.root.chmod(0o700)


def test_a_folder_on_a_disk_is_refused(tmp_path, portal):
    on_disk = SecretMemory(tmp_path / "root", tmp_path / "marks")
    if file_system(tmp_path) == "tmpfs":
        pytest.skip("the temporary folder is in memory")
    with pytest.raises(RuntimeFailure, match="not in memory"):
        ReplicaSecrets(on_disk, portal.fetch).deliver(a_replica(secrets=BOTH))


def test_a_credential_is_asked_for_once_a_pull_and_is_in_memory_alone(memory, portal):
    asked = []
    credential = RegistryCredential("ghcr.io/team", "robot-user", TOKEN)

    def fetch(replica):
        asked.append(replica)
        return PullCredentialResponse(credential if replica == one.id else None)

    secrets = ReplicaSecrets(memory, portal.fetch, fetch)
    one, other = a_replica(), a_replica()
    for replica, found in ((one, credential), (other, None)):
        assert secrets.pull_credential(replica) == secrets.pull_credential(replica) == found
    assert asked == [one.id, other.id]
    assert not memory.root.exists()
    secrets.deliver(one)
    secrets.keep({one.id})
    secrets.pull_credential(one), secrets.pull_credential(other)
    assert asked == [one.id, other.id] * 2
    assert TOKEN not in repr(credential) and "robot" not in repr(credential)
    assert ReplicaSecrets(memory, portal.fetch).pull_credential(one) is None
    lost = ReplicaSecrets(memory, portal.fetch, lambda _: PullCredentialResponse(None, "ghcr"))
    with pytest.raises(RuntimeFailure, match="of the registry ghcr: set it again"):
        lost.pull_credential(one)


def test_each_agent_of_a_machine_has_a_folder_of_its_own(tmp_path):
    one, other = secret_memory(tmp_path / "a"), secret_memory(tmp_path / "b")
    assert one.root != other.root and one.root.parent == other.root.parent


def test_neither_texts_of_values_nor_digests_of_documents_have_them():
    assert TOKEN not in repr(SecretValue("HF_TOKEN", TOKEN))
    assert digest(a_replica(id="r", job="j")) != digest(a_replica(id="r", job="j", secrets=BOTH))
