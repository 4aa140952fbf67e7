"""Secrets in a container of a real engine: read by the job, in nothing that the engine shows."""

import hashlib
import json
import os
import secrets
from pathlib import Path

import pytest

from agents.contract.documents import RuntimeKind
from agents.contract.job_secrets import DesiredSecret, SecretForm, SecretsResponse, SecretValue
from agents.job_secrets.delivery import ReplicaSecrets
from agents.job_secrets.memory import SecretMemory
from agents.runtime.grants import no_grant
from tests.contract.replicas import Watch, a_replica, go

pytestmark = pytest.mark.docker

TOKEN, KEY = "canary-" + secrets.token_hex(16), f"it's canary-{secrets.token_hex(16)} $HOME\n"
PROGRAM = """
import hashlib, os, pathlib
folder = pathlib.Path(os.environ["TESSERA_SECRETS_DIR"])
both = (folder / "HF_TOKEN").read_text() + os.environ["KEY"]
print(hashlib.sha256(both.encode()).hexdigest(), os.listdir(folder), os.getpid() < 20, flush=True)
print(both, flush=True)
try:
    (folder / "HF_TOKEN").write_text("mine")
except OSError as refused:
    print("refused:", refused.strerror, flush=True)
"""


@pytest.fixture
def memory(tmp_path):
    root = Path(f"/dev/shm/tessera-test-{os.getpid()}-{tmp_path.name}")
    made = SecretMemory(root, tmp_path / "marks")
    yield made
    for replica in made.marked():
        made.remove(replica)
    if made.root.is_dir():
        made.root.rmdir()


def test_a_container_reads_files_and_variables_that_inspect_does_not_show(docker_node, memory):
    values = (SecretValue("HF_TOKEN", TOKEN), SecretValue("KEY", KEY))
    found = ReplicaSecrets(memory, lambda replica: SecretsResponse(secrets=values))
    runtime = docker_node.runtime(found.grant(no_grant, RuntimeKind.DOCKER))
    forms = (DesiredSecret("HF_TOKEN"), DesiredSecret("KEY", SecretForm.ENV))
    replica = a_replica(PROGRAM, secrets=forms)
    watch = Watch(runtime)
    found.deliver(replica)
    go(runtime, replica)
    watch.ended(replica)
    whole = runtime.log(replica.id, 0, 10_000)
    proof = hashlib.sha256((TOKEN + KEY).encode()).hexdigest()
    assert f"{proof} ['HF_TOKEN'] True".encode() in whole
    assert b"refused: Read-only file system" in whole
    told = json.dumps(docker_node.container(replica).attrs)
    assert "canary" not in told and "TESSERA_SECRETS_DIR=/run/secrets" in told
    sent = found.read_log(
        replica.id, lambda *at: runtime.log(replica.id, *at), 0, 10_000, is_complete=True
    )
    assert b"canary" not in sent and len(sent) == len(whole)
    runtime.remove(replica.id)
    found.keep(())
    assert not any(memory.root.iterdir())
