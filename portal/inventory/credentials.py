"""Authenticate agents: access tokens, join tokens and signatures. Only digests are stored."""

import base64
import binascii
import hashlib
import hmac
import secrets
from uuid import UUID

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from django.utils import timezone

from agents.contract.errors import ContractError, ContractErrorCode
from portal.database.kept_queries import KeptSelect
from portal.inventory.models import Node
from scheduler.core.model.states import NodeStatus

SCHEME = "Agent "
# What `require_bearer` needs of a node.
CREDENTIAL_COLUMNS = (
    "name", "status", "epoch", "token_digest", "replaced_token_digest", "token_expires_at",
)  # fmt: skip
# Nodes with these columns, and no others.
CREDENTIALS = KeptSelect(
    lambda node: Node.objects.filter(pk=node).only(*CREDENTIAL_COLUMNS),
    Node._meta.pk,
)


class TokenExpired(ContractError):
    """The node's own token, after its time: its agent says hello again, as after every quarter of
    an hour. Not an attack, unlike an unknown token."""


def digest_of(secret: str) -> str:
    """The stored digest of a token. 256 random bits need no salt and no slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()


def token_digest_of(authorization: str) -> str:
    """The digest of an Authorization header's token."""
    return digest_of(authorization.removeprefix(SCHEME))


def new_access_token(node_id: UUID) -> str:
    """A new token. It begins with the node's id, so that the row is found by primary key."""
    return f"{node_id.hex}.{secrets.token_urlsafe(32)}"


def claimed_node_id(authorization: str) -> UUID:
    """The node id that an Authorization header claims, not yet verified."""
    try:
        return UUID(hex=authorization.removeprefix(SCHEME).partition(".")[0])
    except ValueError:
        raise _token_invalid() from None


def bearer_authenticate(*, authorization: str) -> UUID:
    """The id of the node whose token this is: one read by primary key. Raises ContractError."""
    return node_authenticate(CREDENTIALS, authorization=authorization).pk


def node_authenticate(
    nodes: KeptSelect[Node], *, authorization: str, epoch: int | None = None
) -> Node:
    """The calling node, read by `nodes` (which may lock it). Raises ContractError.

    Nothing is revealed without a token that was valid once: `epoch_stale` answers the token that
    the last hello replaced. `epoch`: of the call; None before its body is read.
    """
    node = next(iter(nodes.rows(claimed_node_id(authorization))), None)
    if node is None:
        raise _token_invalid()
    require_bearer(node, authorization=authorization, epoch=epoch)
    return node


def require_bearer(node: Node, *, authorization: str, epoch: int | None) -> None:
    """The same for a node whose row, with the columns of CREDENTIALS, has been read."""
    digest = token_digest_of(authorization)
    if hmac.compare_digest(digest, node.replaced_token_digest):
        require_not_retired(node)
        raise epoch_stale(epoch)
    if not hmac.compare_digest(digest, node.token_digest):
        raise _token_invalid()
    if node.token_expires_at is None or node.token_expires_at <= timezone.now():
        sentence = "the access token is too old: say hello again"
        raise TokenExpired(ContractErrorCode.TOKEN_INVALID, sentence)
    require_not_retired(node)
    if epoch is not None and epoch != node.epoch:
        raise epoch_stale(epoch)


def epoch_stale(epoch: int | None) -> ContractError:
    which = "this session" if epoch is None else f"epoch {epoch}"
    sentence = f"{which} was replaced by a newer one: stop changing the node"
    return ContractError(ContractErrorCode.EPOCH_STALE, sentence, "epoch")


def require_not_retired(node: Node) -> None:
    if node.status == NodeStatus.RETIRED:
        raise ContractError(
            ContractErrorCode.NODE_RETIRED, f"{node.name} was retired: stop its agent"
        )


def read_public_key(text: str) -> Ed25519PublicKey:
    """Raises ContractError(INVALID_FIELD)."""
    try:
        return Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        sentence = "expected a raw Ed25519 public key in base64"
        raise ContractError(ContractErrorCode.INVALID_FIELD, sentence, "public_key") from None


def is_signed(public_key: str, signature: str, message: bytes) -> bool:
    try:
        raw = base64.b64decode(signature, validate=True)
        read_public_key(public_key).verify(raw, message)
    except (binascii.Error, ValueError, InvalidSignature, ContractError):
        # A node that was revoked, or never enrolled, has no key.
        return False
    return True


def _token_invalid() -> ContractError:
    return ContractError(
        ContractErrorCode.TOKEN_INVALID, "the access token is unknown: say hello again"
    )
