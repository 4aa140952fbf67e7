"""The state machines of jobs, replicas, allocations, slices and nodes, and an attempt's rollup.

Only `portal.audit.transitions.advance` writes a status, and it checks it against these tables. The
diagrams in docs/state-machines.md are generated from them.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum


class JobStatus(StrEnum):
    SUBMITTED = "submitted"
    AWAITING_APPROVAL = "awaiting_approval"
    QUEUED = "queued"
    PLACED = "placed"
    PREPARING = "preparing"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


class ReplicaStatus(StrEnum):
    """What the node last reported. The values are those of the wire."""

    PENDING = "pending"
    PREPARING = "preparing"
    READY = "ready"
    RUNNING = "running"
    EXITED = "exited"
    FAILED = "failed"
    LOST = "lost"


class AllocationStatus(StrEnum):
    RESERVED = "reserved"
    BOUND = "bound"
    RELEASING = "releasing"
    RELEASED = "released"


class SliceStatus(StrEnum):
    PLANNED = "planned"
    CREATING = "creating"
    READY = "ready"
    DELETING = "deleting"
    DELETED = "deleted"
    FAILED = "failed"
    FAULTED = "faulted"


class GpuHealth(StrEnum):
    OK = "ok"
    FAULTED = "faulted"
    MISSING = "missing"


class NodeStatus(StrEnum):
    ENROLLED = "enrolled"
    ONLINE = "online"
    UNREACHABLE = "unreachable"
    LOST = "lost"
    RETIRED = "retired"


Edges = Mapping[StrEnum, frozenset[StrEnum]]

_J, _R, _A, _S, _N = JobStatus, ReplicaStatus, AllocationStatus, SliceStatus, NodeStatus
_JOB_ENDS = {_J.FAILED, _J.CANCELLED, _J.TIMED_OUT}

JOB_EDGES: Edges = {
    _J.SUBMITTED: frozenset({_J.AWAITING_APPROVAL, _J.QUEUED, _J.FAILED, _J.CANCELLED}),
    _J.AWAITING_APPROVAL: frozenset({_J.QUEUED, _J.FAILED, _J.CANCELLED}),
    _J.QUEUED: frozenset({_J.PLACED, _J.FAILED, _J.CANCELLED}),
    _J.PLACED: frozenset({_J.PREPARING, _J.STOPPING, _J.QUEUED} | _JOB_ENDS),
    _J.PREPARING: frozenset({_J.RUNNING, _J.STOPPING, _J.QUEUED} | _JOB_ENDS),
    _J.RUNNING: frozenset({_J.STOPPING, _J.QUEUED, _J.SUCCEEDED} | _JOB_ENDS),
    _J.STOPPING: frozenset({_J.QUEUED, _J.SUCCEEDED} | _JOB_ENDS),
    _J.SUCCEEDED: frozenset(),
    _J.FAILED: frozenset(),
    _J.CANCELLED: frozenset(),
    _J.TIMED_OUT: frozenset(),
}

REPLICA_EDGES: Edges = {
    _R.PENDING: frozenset(set(_R) - {_R.PENDING}),
    _R.PREPARING: frozenset({_R.READY, _R.RUNNING, _R.EXITED, _R.FAILED, _R.LOST}),
    _R.READY: frozenset({_R.RUNNING, _R.EXITED, _R.FAILED, _R.LOST}),
    _R.RUNNING: frozenset({_R.EXITED, _R.FAILED, _R.LOST}),
    _R.EXITED: frozenset(),
    _R.FAILED: frozenset(),
    # A node that comes back within its lease reports how the replica ended.
    _R.LOST: frozenset({_R.EXITED, _R.FAILED}),
}

ALLOCATION_EDGES: Edges = {
    _A.RESERVED: frozenset({_A.BOUND, _A.RELEASING, _A.RELEASED}),
    _A.BOUND: frozenset({_A.RELEASING, _A.RELEASED}),
    _A.RELEASING: frozenset({_A.RELEASED}),
    _A.RELEASED: frozenset(),
}

SLICE_EDGES: Edges = {
    _S.PLANNED: frozenset({_S.CREATING, _S.READY, _S.DELETING, _S.DELETED, _S.FAILED}),
    _S.CREATING: frozenset({_S.READY, _S.DELETING, _S.DELETED, _S.FAILED}),
    _S.READY: frozenset({_S.CREATING, _S.DELETING, _S.DELETED, _S.FAULTED}),
    _S.FAULTED: frozenset({_S.READY, _S.DELETING, _S.DELETED}),
    _S.FAILED: frozenset({_S.CREATING, _S.READY, _S.DELETING, _S.DELETED}),
    _S.DELETING: frozenset({_S.DELETED}),
    _S.DELETED: frozenset(),
}

NODE_EDGES: Edges = {
    _N.ENROLLED: frozenset({_N.ONLINE, _N.RETIRED}),
    _N.ONLINE: frozenset({_N.UNREACHABLE, _N.LOST, _N.RETIRED}),
    _N.UNREACHABLE: frozenset({_N.ONLINE, _N.LOST, _N.RETIRED}),
    _N.LOST: frozenset({_N.ONLINE, _N.RETIRED}),
    _N.RETIRED: frozenset(),
}

EDGES: Mapping[str, Edges] = {
    "job": JOB_EDGES,
    "replica": REPLICA_EDGES,
    "allocation": ALLOCATION_EDGES,
    "slice": SLICE_EDGES,
    "node": NODE_EDGES,
}

JOB_FINAL = frozenset(s for s, edges in JOB_EDGES.items() if not edges)
# Ended without success, and not because somebody wanted it.
JOB_FAILED = frozenset({_J.FAILED, _J.TIMED_OUT})
JOB_UNSUCCESSFUL = JOB_FINAL - {_J.SUCCEEDED}
JOB_WAITING = frozenset({_J.SUBMITTED, _J.AWAITING_APPROVAL, _J.QUEUED})
JOB_ALLOCATED = frozenset({_J.PLACED, _J.PREPARING, _J.RUNNING, _J.STOPPING})
ALLOCATION_LIVE = frozenset({_A.RESERVED, _A.BOUND, _A.RELEASING})
SLICE_LIVE = frozenset(set(_S) - {_S.DELETED})
# Nodes that were in contact and do not report.
NODE_SILENT = frozenset({_N.UNREACHABLE, _N.LOST})
REPLICA_ENDED = frozenset({_R.EXITED, _R.FAILED, _R.LOST})


def is_allowed(edges: Edges, old: StrEnum, new: StrEnum) -> bool:
    return new in edges[old]


class AttemptState(StrEnum):
    """The state of an attempt, rolled up from its replicas."""

    WAITING = "waiting"
    PREPARING = "preparing"
    READY = "ready"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"


def attempt_state(replicas: Iterable[tuple[ReplicaStatus, int | None]]) -> AttemptState:
    """The ordered rollup of (status, exit code) of all replicas of one attempt.

    The first rule that matches wins. A replica that failed or exited non-zero fails the gang; a
    lost one loses it. If all exited with 0, the attempt succeeded. If all are ready, the gang has
    reached the barrier. Otherwise the replica that is furthest along decides.
    """
    states = list(replicas)
    statuses = [status for status, _ in states]
    if any(s is _R.FAILED or (s is _R.EXITED and code != 0) for s, code in states):
        return AttemptState.FAILED
    if _R.LOST in statuses:
        return AttemptState.LOST
    if all(s is _R.EXITED for s in statuses):
        return AttemptState.SUCCEEDED
    if any(s in (_R.RUNNING, _R.EXITED) for s in statuses):
        return AttemptState.RUNNING
    if all(s is _R.READY for s in statuses):
        return AttemptState.READY
    if any(s is not _R.PENDING for s in statuses):
        return AttemptState.PREPARING
    return AttemptState.WAITING
