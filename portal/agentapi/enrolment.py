"""A node's first contact (enrol), and each start of its agent (hello)."""

from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from agents.contract.calls import (
    MAX_CLOCK_SKEW_SECONDS,
    EnrolRequest,
    EnrolResponse,
    HelloRequest,
    HelloResponse,
    hello_bytes,
)
from agents.contract.errors import ContractError, ContractErrorCode
from agents.contract.message import Message
from portal.audit.codes import EventCode
from portal.audit.transitions import advance, event_record
from portal.inventory.contact import contact_columns
from portal.inventory.credentials import (
    digest_of,
    is_signed,
    new_access_token,
    read_public_key,
    require_not_retired,
)
from portal.inventory.models import HelloNonce, JoinToken, Node
from portal.inventory.revocation import boots_forget, node_columns_set, node_freeze
from portal.live.bell import ring, ring_plan
from portal.storage.direct import direct_bucket
from scheduler.core.model.states import NodeStatus

# Twice the accepted skew: a hello from the future can be replayed that long.
NONCE_RETENTION = timedelta(seconds=2 * MAX_CLOCK_SKEW_SECONDS)
# Two boots that take turns within this time are two machines.
TURN_INTERVAL = timedelta(seconds=60)
UNKNOWN_NODE = "no node with this id and key: enrol it with a new join token"


def enrol(*, request: EnrolRequest) -> EnrolResponse:
    """Trade a join token for a node: store the agent's key and use up the token, or neither."""
    read_public_key(request.public_key)
    with transaction.atomic():
        now = timezone.now()
        tickets = JoinToken.objects.filter(
            digest=digest_of(request.join_token), node__name=request.node
        )
        nodes = Node.objects.filter(pk__in=tickets.values("node_id")).lock_rows()
        if not nodes or tickets.filter(used_at=None, expires_at__gt=now).update(used_at=now) != 1:
            sentence = (
                "the join token is wrong, used or expired: ask an administrator for a new one"
            )
            raise ContractError(ContractErrorCode.JOIN_TOKEN_INVALID, sentence, "join_token")
        (node,) = nodes
        require_not_retired(node)
        _key_replace(node, request)
    return EnrolResponse(node_id=str(node.pk))


def _key_replace(node: Node, request: EnrolRequest) -> None:
    """From now on the owner of the new key speaks for the node; the old key is void."""
    columns = {
        "public_key": request.public_key,
        "epoch": node.epoch + 1,
        "token_digest": "",
        "replaced_token_digest": node.token_digest,
        "token_expires_at": None,
        "revoked_at": None,
        "frozen_at": None,
    }
    node_columns_set(node, columns)
    boots_forget(node)
    event_record(
        node,
        EventCode.NODE_ENROLLED,
        Message("%(node)s enrolled with a new key", node=node.name),
        actor=f"node:{node.name}",
        data={"machine_id": request.machine_id},
    )
    ring(f"node:{node.pk}")


def hello(*, request: HelloRequest) -> HelloResponse:
    """Start a session: a higher epoch and a fresh token; every earlier session ends here."""
    with transaction.atomic():
        now = timezone.now()
        node = _proven_node(request)
        _require_fresh(node, request, now)
        is_shared = _is_key_shared(node, request, now)
        if is_shared:
            node_freeze(node=node, boot_ids=(node.boot_id, request.boot_id))
        else:
            token = _session_start(node, request, now)
    if is_shared:
        # After the commit: a refusal inside would undo it.
        raise _frozen()
    platform = settings.PLATFORM
    return HelloResponse(
        epoch=node.epoch,
        access_token=token,
        token_seconds=platform.agent_token_seconds,
        lease_seconds=platform.lease_seconds,
        acked_seq=node.acked_seq,
        server_time=now.isoformat(),
        direct_transfer=direct_bucket() is not None,
    )


def _proven_node(request: HelloRequest) -> Node:
    """The node whose key signed the request. Unknown nodes and wrong signatures read the same."""
    try:
        nodes = Node.objects.defer("desired").filter(pk=UUID(request.node_id)).lock_rows()
    except ValueError:
        nodes = []
    if not nodes:
        raise ContractError(ContractErrorCode.NODE_UNKNOWN, UNKNOWN_NODE)
    (node,) = nodes
    require_not_retired(node)
    message = hello_bytes(
        request.node_id, request.boot_id, request.time_ms, request.nonce, request.protocol
    )
    if not is_signed(node.public_key, request.signature, message):
        raise ContractError(ContractErrorCode.SIGNATURE_INVALID, UNKNOWN_NODE)
    if node.frozen_at:
        raise _frozen()
    return node


def _is_key_shared(node: Node, request: HelloRequest, now: datetime) -> bool:
    """Whether two machines use the key in turn: this boot was here before the node's last one, a
    moment ago. A machine that reboots never comes back to an earlier boot."""
    if not node.boot_id or node.boot_id == request.boot_id:
        return False
    before = node.nonces.filter(boot_id=request.boot_id, seen_at__gt=now - TURN_INTERVAL)
    return before.exclude(nonce=request.nonce).exists()


def _frozen() -> ContractError:
    sentence = (
        "two machines use the key of this node: stop the agent that should not have it, and ask an"
        " administrator to unfreeze the node"
    )
    return ContractError(ContractErrorCode.NODE_FROZEN, sentence)


def _require_fresh(node: Node, request: HelloRequest, now: datetime) -> None:
    """Refuse a replay: a time too far from our clock, or a nonce used before."""
    now_ms = int(now.timestamp() * 1000)
    if abs(now_ms - request.time_ms) > MAX_CLOCK_SKEW_SECONDS * 1000:
        sentence = (
            f"the clocks differ by more than {MAX_CLOCK_SKEW_SECONDS} s: set the node's clock"
        )
        raise ContractError(
            ContractErrorCode.CLOCK_SKEW, sentence, "time_ms", {"server_time_ms": now_ms}
        )
    node.nonces.filter(seen_at__lt=now - NONCE_RETENTION).delete()
    try:
        with transaction.atomic():
            HelloNonce.objects.create(
                node=node, nonce=request.nonce, boot_id=request.boot_id, seen_at=now
            )
    except IntegrityError:
        sentence = "this hello was answered before: sign a new one"
        raise ContractError(ContractErrorCode.NONCE_REUSED, sentence, "nonce") from None


def _session_start(node: Node, request: HelloRequest, now: datetime) -> str:
    token = new_access_token(node.pk)
    _boot_note(node, request)
    columns = {
        "epoch": node.epoch + 1,
        "token_digest": digest_of(token),
        "replaced_token_digest": node.token_digest,
        "token_expires_at": now + timedelta(seconds=settings.PLATFORM.agent_token_seconds),
        "boot_id": request.boot_id,
        **contact_columns(node, now),
        # What the last session observed may be outdated: ask for the whole document.
        "observed_hash": "",
    }
    node_columns_set(node, columns)
    node_mark_online(node)
    # A long poll of the earlier session ends at once.
    ring(f"node:{node.pk}")
    return token


def node_mark_online(node: Node) -> None:
    """Mark a node online that made a call. `node` is locked by the caller."""
    if node.status == NodeStatus.ONLINE:
        return
    advance(
        node,
        NodeStatus.ONLINE,
        actor=f"node:{node.name}",
        message=Message("%(node)s is online again", node=node.name),
    )
    ring("cluster")
    ring_plan()


def _boot_note(node: Node, request: HelloRequest) -> None:
    if node.boot_id and node.boot_id != request.boot_id:
        event_record(
            node,
            EventCode.NODE_REBOOTED,
            Message("%(node)s has rebooted since its last contact", node=node.name),
            actor=f"node:{node.name}",
            data={"old": node.boot_id, "new": request.boot_id},
        )
