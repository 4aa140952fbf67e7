"""Secrets of a job. A document has their names alone; the node asks for the values in a call of
their own, once for each replica that it prepares."""

from dataclasses import dataclass, field
from enum import StrEnum

from agents.contract.codec import rule

SECRETS_PATH = "/agent/v1/replicas/{replica}/secrets"  # POST, without a body

MAX_SECRETS = 32
"""Of one request."""
MAX_REPLICA_SECRETS = MAX_SECRETS + 1
GANG_KEY = "TESSERA_GANG_KEY"
"""The one secret that no request names: the portal makes it for each attempt of a gang whose
launcher needs it (`Launcher.shares_key`). No user may have a secret of such a name."""
MAX_SECRET_BYTES = 64 << 10
MIN_SECRET_CHARACTERS = 8
"""A shorter value could not be hidden in logs: it would hide words."""
SECRET_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,63}"  # noqa: S105 - no secret


class SecretForm(StrEnum):
    """How a job reads a secret: a file in its folder of secrets, or a variable. One for git is read
    by its node alone, to fetch the code of the job."""

    FILE = "file"
    ENV = "env"
    GIT = "git"


@dataclass(frozen=True, slots=True)
class DesiredSecret:
    """A secret that a replica is to have."""

    name: str = field(metadata=rule(max_length=64, pattern=SECRET_NAME))
    form: SecretForm = SecretForm.FILE


@dataclass(frozen=True, slots=True)
class SecretValue:
    name: str = field(metadata=rule(max_length=64, pattern=SECRET_NAME))
    value: str = field(metadata=rule(max_length=MAX_SECRET_BYTES), repr=False)


@dataclass(frozen=True, slots=True)
class SecretsResponse:
    """The values of one replica's secrets, and the names of those that are not there any more, or
    that the portal cannot read."""

    secrets: tuple[SecretValue, ...] = field(
        default=(), metadata=rule(max_length=MAX_REPLICA_SECRETS)
    )
    missing: tuple[str, ...] = field(default=(), metadata=rule(max_length=MAX_SECRETS))
    unreadable: tuple[str, ...] = field(default=(), metadata=rule(max_length=MAX_SECRETS))
