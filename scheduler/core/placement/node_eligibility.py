"""Which nodes a job may run on, by what they are, offer and run, and whether they are free."""

from collections.abc import Hashable

from agents.contract.egress import EgressPolicy
from agents.contract.image_needs import meets, unmet_need
from agents.contract.message import Message, verbatim
from scheduler.core.model.message_templates import make_message
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import NodeView, WaitingJob

NO_LAUNCHER = "node.no_launcher"
NO_RDMA = "node.no_rdma"
NO_GIT = "node.no_git"
NO_EGRESS = "node.no_egress"
IMAGE_UNFIT = "node.image_unfit"
NO_VOLUME = ("node.no_volume", "node.volume_read_only")


def exclusion_message(node: NodeView, job: WaitingJob) -> Message | None:
    """Why the job may not run on the node now; None if it may. Empty for a node that is unavailable
    without a known reason."""
    if not node.available:
        return _unavailability(node)
    if job.only_nodes and node.name not in job.only_nodes:
        return make_message("node.not_measured", node=node.name)
    if label := _missing_label(node, job):
        return make_message("node.no_label", node=node.name, label=label)
    if taint := _untolerated_taint(node, job):
        return make_message("node.tainted", node=node.name, taint=taint)
    if job.launcher not in node.launchers:
        version = node.agent_version or "?"
        return make_message(NO_LAUNCHER, node=node.name, version=version, launcher=job.launcher)
    if job.needs_rdma and not node.rdma:
        return make_message(NO_RDMA, node=node.name)
    if access := _missing_volume(node, job):
        return _no_volume(node, access)
    if job.git_host and job.git_host not in node.git_hosts:
        return make_message(NO_GIT, node=node.name, host=job.git_host)
    if not _limits_egress(node, job):
        return make_message(NO_EGRESS, node=node.name, policy=str(job.egress))
    if need := unmet_need(job.image_needs, node.fit):
        has = _driver_words(node)
        return make_message(IMAGE_UNFIT, node=node.name, has=has, need=need)
    return None


def exclusion_code(message: Message) -> ReasonCode:
    """The reason of a job that only this exclusion keeps from its nodes."""
    if message.key in NO_VOLUME:
        return ReasonCode.VOLUME
    return ReasonCode.IMAGE if message.key == IMAGE_UNFIT else ReasonCode.NODE_UNAVAILABLE


def is_eligible(node: NodeView, job: WaitingJob) -> bool:
    """Whether the labels and taints of the node allow the job, its agent can launch it and keep it
    from what it may not reach, the node offers its volumes and the RDMA that it needs, its image
    runs there, and the job does not measure other nodes."""
    if job.only_nodes and node.name not in job.only_nodes:
        return False
    is_allowed = allows(node.labels, node.taints, needs=job.needs, tolerates=job.tolerates)
    can_launch = job.launcher in node.launchers and not _missing_volume(node, job)
    is_joined = bool(node.rdma) or not job.needs_rdma
    can_fetch = not job.git_host or job.git_host in node.git_hosts
    is_fit = is_joined and can_fetch and meets(node.fit, job.image_needs)
    return is_allowed and can_launch and is_fit and _limits_egress(node, job)


def eligibility_key(job: WaitingJob) -> Hashable:
    """Jobs with equal keys are eligible for the same nodes."""
    own = (job.needs, job.tolerates, job.launcher, job.needs_rdma)
    places = (job.volume_access, job.image_needs, job.git_host, job.only_nodes)
    return *own, *places, job.egress is EgressPolicy.ALL


def network_of(node: NodeView, job: WaitingJob) -> Hashable:
    """Ranks on nodes with an equal one reach each other: by RDMA of one kind, where the job has to
    use it."""
    return node.fabric, node.rdma if job.needs_rdma else ""


def allows(
    labels: tuple[str, ...],
    taints: tuple[str, ...],
    *,
    needs: tuple[str, ...],
    tolerates: tuple[str, ...],
) -> bool:
    """Whether a node with these labels and taints may run what needs and tolerates these."""
    return all(_has(labels, label) for label in needs) and all(
        _tolerates(tolerates, taint) for taint in taints
    )


def _unavailability(node: NodeView) -> Message:
    """Why the node accepts no jobs."""
    if key := node.unavailable_key:
        return make_message(key, node=node.name, why=node.unavailable_reason)
    return verbatim(node.unavailable_reason)


def _missing_label(node: NodeView, job: WaitingJob) -> str:
    """A label that the job requires and the node lacks; "" if there is none."""
    return next((label for label in job.needs if not _has(node.labels, label)), "")


def _limits_egress(node: NodeView, job: WaitingJob) -> bool:
    return node.limits_egress or job.egress is EgressPolicy.ALL


def _missing_volume(node: NodeView, job: WaitingJob) -> str:
    """What a volume of the job needs and the node does not offer; "" if there is nothing."""
    return next((word for word in job.volume_access if word not in node.volume_access), "")


def _no_volume(node: NodeView, access: str) -> Message:
    root = access.partition(":")[0]
    key = "node.volume_read_only" if root in node.volume_access else "node.no_volume"
    return make_message(key, node=node.name, root=root)


def _driver_words(node: NodeView) -> Message:
    fit = node.fit
    words = {"cuda": fit.cuda or "?", "driver": fit.driver or "?"}
    return make_message("node.driver", architecture=fit.architecture or "?", **words)


def _untolerated_taint(node: NodeView, job: WaitingJob) -> str:
    """A taint of the node that keeps the job away; "" if there is none."""
    return next((taint for taint in node.taints if not _tolerates(job.tolerates, taint)), "")


def _has(labels: tuple[str, ...], required: str) -> bool:
    """`key=value` requires this value, `key` any value of it."""
    if "=" in required:
        return required in labels
    return any(label.partition("=")[0] == required for label in labels)


def _tolerates(tolerated: tuple[str, ...], taint: str) -> bool:
    """`key=value` tolerates that taint, `key` every value of it."""
    return taint in tolerated or taint.partition("=")[0] in tolerated
