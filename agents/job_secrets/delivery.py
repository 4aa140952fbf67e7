"""The secrets of the replicas of a node: fetched before a replica is prepared, granted to its
container, hidden in its log, and removed with it."""

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from agents.contract.documents import DesiredReplica, RuntimeKind
from agents.contract.job_secrets import SecretForm, SecretsResponse
from agents.contract.registries import PullCredentialResponse, RegistryCredential
from agents.job_secrets.memory import FILES, SCRIPT, NoMemoryFolder, SecretMemory
from agents.job_secrets.redaction import LogRedaction, ReadLog, WholeRedaction
from agents.runtime.base import RuntimeFailure
from agents.runtime.grants import Grant, GrantProvider

FOLDER = "TESSERA_SECRETS_DIR"
IN_CONTAINER = "/run/secrets"
SCRIPT_IN_CONTAINER = "/run/tessera/with-environment"
SHELL = "/bin/sh"

FetchSecrets = Callable[[str], SecretsResponse]
"""Ask the portal for the secrets of a replica. Raises SecretsAway."""

FetchCredential = Callable[[str], PullCredentialResponse]
"""Ask the portal for the credential of a replica's image. Raises SecretsAway."""


class SecretsAway(Exception):
    """The portal does not answer now: the next round asks again."""


def no_credential(replica: str) -> PullCredentialResponse:
    """Where there is no portal to ask: images are pulled as the machine may pull them."""
    return PullCredentialResponse()


class ReplicaSecrets:
    """Thread-safe. Values are in memory and in `memory`, nowhere else."""

    def __init__(
        self,
        memory: SecretMemory,
        fetch: FetchSecrets,
        fetch_credential: FetchCredential = no_credential,
    ) -> None:
        self._memory = memory
        self._fetch = fetch
        self._fetch_credential = fetch_credential
        # By replica, those that were asked for. Only here: a container never gets them.
        self._credentials: dict[str, RegistryCredential | None] = {}
        self._lock = threading.Lock()
        self._marked = memory.marked()
        self._redactions: dict[str, LogRedaction] = {}

    def deliver(self, replica: DesiredReplica) -> None:
        """Have its secrets ready. Raises RuntimeFailure if one of them does not exist any more,
        and SecretsAway."""
        with self._lock:
            # Its image is here by now.
            self._credentials.pop(replica.id, None)
        if not replica.secrets or self._memory.has(replica.id):
            return
        found = self._fetch(replica.id)
        names = {secret.name for secret in found.secrets}
        if gone := [s.name for s in replica.secrets if s.name not in names]:
            raise _failure(found, gone)
        forms = {secret.name: str(secret.form) for secret in replica.secrets}
        try:
            self._memory.write(replica.id, found.secrets, forms)
        except (OSError, NoMemoryFolder) as error:
            sentence = f"this node cannot keep secrets in memory: {error}"
            raise RuntimeFailure("secrets_unkept", sentence) from error
        with self._lock:
            self._marked.add(replica.id)
            self._redactions.pop(replica.id, None)

    def pull_credential(self, replica: DesiredReplica) -> RegistryCredential | None:
        """What signs the pull of its image in to the registry; None if its project has no
        credential for it. Asked for once, until `deliver`.

        Raises SecretsAway, and RuntimeFailure if the portal cannot read it."""
        with self._lock:
            if replica.id in self._credentials:
                return self._credentials[replica.id]
        answer = self._fetch_credential(replica.id)
        if answer.unreadable:
            sentence = (
                f"the portal's key was changed, and it cannot read the credential of the registry"
                f" {answer.unreadable}: set it again"
            )
            raise RuntimeFailure("credential_unreadable", sentence)
        with self._lock:
            self._credentials[replica.id] = answer.credential
        return answer.credential

    def grant(
        self, provider: GrantProvider, kind: RuntimeKind
    ) -> Callable[[DesiredReplica, Sequence[str]], Grant]:
        """The provider's grants, with what gives a replica its secrets."""

        def granted(replica: DesiredReplica, devices: Sequence[str]) -> Grant:
            grant = provider(replica, devices)
            own = [each for each in replica.secrets if each.form is not SecretForm.GIT]
            return self._with_secrets(grant, replica, kind) if own else grant

        return granted

    def _with_secrets(self, grant: Grant, replica: DesiredReplica, kind: RuntimeKind) -> Grant:
        home = self._memory.folder(replica.id)
        files, script, mounts = str(home / FILES), str(home / SCRIPT), grant.read_only_mounts
        has_variables = any(secret.form is SecretForm.ENV for secret in replica.secrets)
        if kind is RuntimeKind.DOCKER:
            mounts += ((files, IN_CONTAINER),)
            if has_variables:
                mounts += ((script, SCRIPT_IN_CONTAINER),)
            files, script = IN_CONTAINER, SCRIPT_IN_CONTAINER
        return replace(
            grant,
            env=grant.env | {FOLDER: files},
            read_only_mounts=mounts,
            # The engine shows the environment of a container to whoever inspects it.
            wrapper=(SHELL, script) if has_variables else (),
        )

    def git_key(self, replica: str, name: str) -> Path:
        """The file of a secret by which this node fetches the replica's code."""
        return self._memory.own_file(replica, name)

    def read_log(
        self, replica: str, read: ReadLog, offset: int, limit: int, *, is_complete: bool
    ) -> bytes:
        """Bytes of the replica's log from `offset`, without its secrets."""
        if replica not in self._marked:
            return read(offset, limit)
        redaction = self._redaction(replica)
        return redaction.read(read, offset, limit, is_complete=is_complete)

    def keep(self, replicas: Collection[str]) -> None:
        """Remove the secrets of all others."""
        with self._lock:
            for gone in self._credentials.keys() - set(replicas):
                del self._credentials[gone]
        for gone in self._marked - set(replicas):
            self._memory.remove(gone)
            with self._lock:
                self._marked.discard(gone)
                self._redactions.pop(gone, None)

    def _redaction(self, replica: str) -> LogRedaction:
        with self._lock:
            if replica not in self._redactions:
                has_values = self._memory.has(replica)
                values = self._memory.values(replica) if has_values else []
                found = LogRedaction(values) if has_values else WholeRedaction()
                self._redactions[replica] = found
            return self._redactions[replica]


def without_secrets() -> ReplicaSecrets:
    """For a node without a portal, as in a drill."""

    def fetch(replica: str) -> SecretsResponse:
        raise SecretsAway("there is no portal")

    nowhere = Path("/nonexistent")
    return ReplicaSecrets(SecretMemory(nowhere, nowhere), fetch)


def _failure(found: SecretsResponse, gone: Sequence[str]) -> RuntimeFailure:
    names = ", ".join(gone)
    if any(name in found.unreadable for name in gone):
        sentence = f"the portal's key was changed, and it cannot read the secret {names}"
        return RuntimeFailure("secret_unreadable", f"{sentence}: set it again")
    return RuntimeFailure("secret_missing", f"the secret {names} was deleted")
