"""Every message of the planner in English, by its key. Pages translate these texts.

Keys and parameter names are stored with jobs and events, so they never change. The first word of a
key says what the message is about: the code of a reason, what `unblocks` it, what the `bound` of a
wait rests on, an alternative (`instead`), the `basis` of an estimate, a `place`, what can `never`
run, why a placement no longer `fits`.
"""

from typing import Any

from agents.contract.message import TEMPLATES, Message, MessageTemplate
from scheduler.core.model.fits_templates import FITS
from scheduler.core.model.never_templates import NEVER

# Why a node takes no work after a restore: it runs what the portal does not know, or some node has
# not reported yet.
NODE_HOLDING = "node.holding"
NODE_AWAITED = "node.awaited"

_PARTS = {
    "device.slice": MessageTemplate("%(profile)s of %(model)s"),
    "device.share": MessageTemplate("%(threads)s %% of %(model)s"),
    "user.in_project": MessageTemplate("%(user)s in %(project)s"),
}

_REASONS = {
    "resources.devices": MessageTemplate("%(needed)s \u00d7 %(device)s needed, %(free)s free"),
    "resources.host": MessageTemplate(
        "%(needed)s \u00d7 %(device)s would fit, but no node has enough CPU and memory free"
    ),
    "resources.disk": MessageTemplate(
        "%(needed)s \u00d7 %(device)s would fit, but no such node has %(disk)s of disk free"
    ),
    "resources.disk_not_told": MessageTemplate(
        "%(needed)s \u00d7 %(device)s would fit, but no such node reports %(disk)s of disk"
    ),
    "topology.apart": MessageTemplate("%(free)s \u00d7 %(device)s free, but on different nodes"),
    "topology.networks": MessageTemplate(
        "%(free)s \u00d7 %(device)s free, but on %(networks)s networks that do not reach each "
        "other: at most %(most)s on one"
    ),
    "topology.no_addresses": MessageTemplate(
        "%(free)s \u00d7 %(device)s free, but there are no addresses left for the network of so "
        "large a gang"
    ),
    "fragmentation.apart": MessageTemplate(
        "%(free)s \u00d7 %(device)s free in total, but not where they fit together"
    ),
    "repartition.merging": MessageTemplate(
        "Idle slices are being merged to make room; the job starts in a few seconds"
    ),
    "priority.taken": MessageTemplate("Jobs ahead of it take the devices that are free now"),
    "priority.behind": MessageTemplate("A job ahead of it is blocked, and no job may bypass it"),
    "priority.own_devices": MessageTemplate(
        "The devices of its last attempt are about to be free, for as many replicas as fit"
    ),
    "priority.stopping": MessageTemplate(
        "It waits until %(jobs)s has stopped", "It waits until %(jobs)s have stopped", "number"
    ),
    "reservation.kept": MessageTemplate(
        "It would delay %(job)s, which is ahead of it and has a reservation"
    ),
    "reservation.quota": MessageTemplate(
        "It would take quota from %(job)s, which later jobs have bypassed too often"
    ),
    "node_unavailable.none": MessageTemplate("No node has been added yet"),
    "node_unavailable.all": MessageTemplate("No node that could run it accepts jobs: %(why)s"),
    "node_unavailable.more": MessageTemplate("and %(more)s more"),
    "node.enrolled": MessageTemplate("%(node)s is enrolled, but has not reported yet"),
    "node.unreachable": MessageTemplate("%(node)s is unreachable"),
    "node.lost": MessageTemplate("%(node)s is lost"),
    "node.cordoned": MessageTemplate("%(node)s is cordoned: %(why)s"),
    "node.cordoned_silently": MessageTemplate("%(node)s is cordoned: no reason given"),
    "node.blocks": MessageTemplate("%(node)s has stopped accepting jobs (%(why)s)"),
    NODE_HOLDING: MessageTemplate(
        "%(node)s holds back: it runs work that the portal does not know"
    ),
    NODE_AWAITED: MessageTemplate(
        "%(node)s takes no work until %(why)s has reported what it runs, since the database was "
        "restored"
    ),
    "node.no_label": MessageTemplate("%(node)s has no label %(label)s"),
    "node.tainted": MessageTemplate("%(node)s is reserved for jobs that tolerate %(taint)s"),
    "node.no_rdma": MessageTemplate("%(node)s offers no RDMA"),
    "node.not_measured": MessageTemplate("%(node)s is not one of the nodes that it measures"),
    "node.no_git": MessageTemplate("%(node)s fetches no code from %(host)s"),
    "node.no_launcher": MessageTemplate(
        "The agent of %(node)s (version %(version)s) has no launcher %(launcher)s"
    ),
    "node.no_egress": MessageTemplate(
        "%(node)s cannot limit what jobs reach, as their project requires (%(policy)s)"
    ),
    "node.no_volume": MessageTemplate("%(node)s offers no volumes below %(root)s"),
    "node.volume_read_only": MessageTemplate("%(node)s offers %(root)s for reading only"),
    "node.image_unfit": MessageTemplate("%(node)s has %(has)s, and the image needs %(need)s"),
    "node.driver": MessageTemplate("CUDA %(cuda)s (driver %(driver)s, %(architecture)s)"),
    "image.nowhere": MessageTemplate("No node that could run it has what its image needs: %(why)s"),
    "volume.nowhere": MessageTemplate("No node that could run it has its volumes: %(why)s"),
    "held": MessageTemplate("It is held: %(because)s"),
    "secret.deleted": MessageTemplate("The secret %(name)s that it reads was deleted"),
    "begin_time": MessageTemplate("Its begin time has not come yet"),
    "dependency": MessageTemplate("It starts after %(jobs)s"),
    "approval.units": MessageTemplate(
        "Jobs with more than %(gpus)s GPUs need approval by an admin of %(project)s; this job"
        " has %(needed)s"
    ),
    "approval.time": MessageTemplate(
        "Jobs that may run longer than %(limit)s need approval by an admin of %(project)s; "
        "this job may run %(needed)s"
    ),
    "approval.gpu_hours": MessageTemplate(
        "Jobs that may use more than %(hours)s GPU-hours need approval by an admin of "
        "%(project)s; this job may use %(needed)s"
    ),
    "approval.high": MessageTemplate(
        "Jobs with priority high need approval by an admin of %(project)s"
    ),
}

_QUOTA = {
    "quota.may_hold": MessageTemplate(
        "%(whose)s may use %(limit)s GPU at once",
        "%(whose)s may use %(limit)s GPUs at once",
        "limit",
    ),
    "quota.may_hold_of": MessageTemplate(
        "%(whose)s may use %(limit)s %(model)s GPU at once",
        "%(whose)s may use %(limit)s %(model)s GPUs at once",
        "limit",
    ),
    "quota.left": MessageTemplate(
        "%(left)s is left, but this needs %(needed)s",
        "%(left)s are left, but this needs %(needed)s",
        "left",
    ),
    "quota.has_borrowed": MessageTemplate("%(first)s and has borrowed %(borrowed)s more"),
    "quota.lent": MessageTemplate(
        "%(further)s more can be borrowed now, but this needs %(needed)s"
    ),
    "quota.lent_and_left": MessageTemplate(
        "%(left)s is left and %(further)s more can be borrowed now, but this needs %(needed)s",
        "%(left)s are left and %(further)s more can be borrowed now, but this needs %(needed)s",
        "left",
    ),
    "quota.borrows_enough": MessageTemplate("it cannot borrow more, but this needs %(needed)s"),
    "quota.borrows_enough_and_left": MessageTemplate(
        "%(left)s is left and it cannot borrow more, but this needs %(needed)s",
        "%(left)s are left and it cannot borrow more, but this needs %(needed)s",
        "left",
    ),
    "quota.nothing_lent": MessageTemplate(
        "nothing more can be borrowed now, but this needs %(needed)s"
    ),
    "quota.nothing_lent_and_left": MessageTemplate(
        "%(left)s is left and nothing more can be borrowed now, but this needs %(needed)s",
        "%(left)s are left and nothing more can be borrowed now, but this needs %(needed)s",
        "left",
    ),
    "quota.taken": MessageTemplate("%(gpus)s borrowed by other projects"),
    "quota.promised": MessageTemplate("%(gpus)s kept for jobs ahead"),
    "quota.held_by": MessageTemplate("in use by %(names)s"),
    "quota.others": MessageTemplate(
        "%(number)s other (%(gpus)s)", "%(number)s others (%(gpus)s)", "number"
    ),
    "budget.used_up": MessageTemplate(
        "%(whose)s may use %(limit)s GPU-hours until %(day)s: %(used)s used, %(held)s "
        "reserved for running jobs, %(left)s left; this may take %(needed)s"
    ),
    "budget.fitting": MessageTemplate("%(first)s. A time limit of %(limit)s would fit"),
    "pending_limit.running": MessageTemplate(
        "%(whose)s may run %(most)s job at once and is running %(runs)s",
        "%(whose)s may run %(most)s jobs at once and is running %(runs)s",
        "most",
    ),
    "array_cap.full": MessageTemplate(
        "%(array)s may run %(most)s member at once, and it does",
        "%(array)s may run %(most)s members at once, and as many run",
        "most",
    ),
}

_UNBLOCKS = {
    "unblocks.running_ends": MessageTemplate("It starts when running jobs end"),
    "unblocks.any_topology": MessageTemplate(
        "With topology any it could be spread over several nodes"
    ),
    "unblocks.networks": MessageTemplate(
        "It starts when enough is free on one network. An admin can join nodes of several engines "
        "by the key %(setting)s of their policies"
    ),
    "unblocks.addresses": MessageTemplate(
        "It starts when other gangs over several nodes end. An admin can widen %(setting)s"
    ),
    "unblocks.nothing_to_do": MessageTemplate("Nothing to do"),
    "unblocks.node_added": MessageTemplate("An admin has to add a node"),
    "unblocks.agent_updated": MessageTemplate(
        "An admin has to update the agents, so that they report their disk"
    ),
    "unblocks.rdma": MessageTemplate(
        "Set rdma to auto, or a node that offers RDMA has to come back"
    ),
    "unblocks.git": MessageTemplate(
        "Send the folder instead of naming its repository, or ask the owner of a node to allow "
        "%(host)s"
    ),
    "unblocks.egress": MessageTemplate(
        "An admin has to add a node that can limit what jobs reach, or update its agent"
    ),
    "unblocks.launcher": MessageTemplate(
        "An admin has to update the agents to a version with launcher %(launcher)s"
    ),
    "unblocks.volume": MessageTemplate(
        "An admin has to offer %(roots)s on a node, or mount it there again"
    ),
    "unblocks.image": MessageTemplate(
        "An admin has to bring %(need)s, or you use an image that needs less"
    ),
    "unblocks.node_back": MessageTemplate("An admin has to bring a node back"),
    "unblocks.node_allowed": MessageTemplate(
        "An admin has to decide about the work that the node would end"
    ),
    "unblocks.those_ahead": MessageTemplate("It starts when the jobs ahead of it have started"),
    "unblocks.shorter": MessageTemplate(
        "With a shorter time limit it may start before that job; otherwise it starts after it"
    ),
    "unblocks.quota_kept": MessageTemplate(
        "It starts after %(job)s, or when an admin raises the quota"
    ),
    "unblocks.released": MessageTemplate("The person who holds it, or an admin, has to release it"),
    "unblocks.secret": MessageTemplate(
        "It starts after %(name)s is set again; or submit it without that secret"
    ),
    "unblocks.begin_time": MessageTemplate("It waits for its begin time"),
    "unblocks.those_end": MessageTemplate("Those jobs have to end first"),
    "unblocks.quota": MessageTemplate(
        "It starts when other jobs on this quota end, or when an admin raises the quota"
    ),
    "unblocks.lent": MessageTemplate(
        "It starts when other jobs on this quota end, or when other projects lend more"
    ),
    "unblocks.member_ends": MessageTemplate("It starts when a running member ends"),
    "unblocks.cap": MessageTemplate(
        "It starts when one of these jobs ends, or when an admin raises the cap"
    ),
    "unblocks.limit": MessageTemplate(
        "Set a time limit of at most %(limit)s, or ask an admin for more"
    ),
    "unblocks.budget": MessageTemplate("Ask an admin for a larger budget"),
    "unblocks.change": MessageTemplate("Change the request"),
    "unblocks.approved": MessageTemplate("It is queued when an admin approves it"),
}

_INSTEAD = {
    "instead.any_node": MessageTemplate("On any node, whatever its labels"),
    "instead.any_model": MessageTemplate("On any GPU model"),
    "instead.spread": MessageTemplate("With its replicas on several nodes"),
    "instead.limit": MessageTemplate("With a time limit of %(limit)s"),
    "instead.less_memory": MessageTemplate("With %(memory)s of GPU memory"),
    "instead.memory": MessageTemplate("On any device with %(memory)s of GPU memory"),
    "instead.share": MessageTemplate(
        "As an MPS share with %(memory)s, next to other shares of the project"
    ),
    "instead.gpus": MessageTemplate(
        "With %(gpus)s GPU per replica", "With %(gpus)s GPUs per replica", "gpus"
    ),
    "instead.profile": MessageTemplate("With %(profile)s"),
    "instead.replicas": MessageTemplate(
        "With %(replicas)s replica", "With %(replicas)s replicas", "replicas"
    ),
}

_BOUNDS = {
    "bound.quota": MessageTemplate(
        "It waits until %(job)s ends and enough of the quota is free: %(at)s at the latest"
    ),
    "bound.quota_shared": MessageTemplate(
        "It waits until %(job)s ends and enough of the quota is free: %(at)s at the latest, unless "
        "another job that waits for it comes first"
    ),
    "bound.cap": MessageTemplate(
        "It waits until %(job)s ends and one more job may run: %(at)s at the latest"
    ),
    "bound.cap_shared": MessageTemplate(
        "It waits until %(job)s ends and one more job may run: %(at)s at the latest, unless "
        "another job that waits comes first"
    ),
    "bound.taken_first": MessageTemplate("Other jobs that wait for the same limit come first"),
    "bound.lent": MessageTemplate(
        "It needs quota that other projects lend, and nobody can say when they do"
    ),
    "bound.budget": MessageTemplate(
        "It waits until this budget of %(whose)s ends: %(at)s at the latest"
    ),
    "bound.dependency": MessageTemplate("It waits until %(job)s ends: %(at)s at the latest"),
    "bound.dependency_expected": MessageTemplate(
        "It waits until %(job)s ends: %(at)s at the latest, if jobs start when they are expected to"
    ),
    "bound.dependency_waits": MessageTemplate(
        "It waits until %(job)s ends, which waits itself: nobody can say how long"
    ),
    "bound.reserved": MessageTemplate(
        "It starts at %(at)s at the latest: a place is reserved for it"
    ),
    "bound.approval": MessageTemplate(
        "It has waited since %(since)s for an admin of %(project)s to approve it"
    ),
    "bound.approval_by": MessageTemplate(
        "It has waited since %(since)s for %(names)s to approve it"
    ),
}

_ESTIMATES = {
    "basis.forecasts": MessageTemplate(
        "%(runs)s forecasts from %(ended)s ended runs and the time limits of %(limits)s "
        "running jobs"
    ),
    "basis.corrected": MessageTemplate("%(first)s, corrected by %(known)s earlier forecasts"),
    "basis.reserved": MessageTemplate("%(first)s, no later than its reserved start"),
    "no_estimate.nothing": MessageTemplate("no estimate: no history to go by"),
    "no_estimate.far_off": MessageTemplate(
        "no estimate: earlier ones of this kind were too far off"
    ),
    "no_estimate.quota": MessageTemplate("no estimate while it waits for quota"),
    "no_estimate.budget": MessageTemplate("no estimate while it waits for budget"),
    "no_estimate.pending_limit": MessageTemplate(
        "no estimate while as many jobs run as may run at once"
    ),
    "no_estimate.array_cap": MessageTemplate(
        "no estimate while as many members of its array run as may run at once"
    ),
    "no_estimate.approval": MessageTemplate("no estimate until it is approved"),
    "no_estimate.held": MessageTemplate("no estimate while it is held"),
    "no_estimate.secret_missing": MessageTemplate("no estimate while a secret is missing"),
    "no_estimate.dependency": MessageTemplate("no estimate while it waits for other jobs"),
    "no_estimate.node_holding": MessageTemplate("no estimate until an admin decides"),
    "no_estimate.volume": MessageTemplate("no estimate while no node has its volumes"),
    "no_estimate.image": MessageTemplate("no estimate while no node has what its image needs"),
    "no_estimate.node_unavailable": MessageTemplate("no estimate while it waits for a node"),
    "no_estimate.impossible": MessageTemplate("no estimate: it cannot run here"),
    "no_estimate.begin_time": MessageTemplate("not before %(time)s"),
}

_PLACES = {
    "place.one_node": MessageTemplate(
        "%(devices)s device%(how)s on one node", "%(devices)s devices%(how)s on one node", "devices"
    ),
    "place.nodes": MessageTemplate(
        "%(devices)s device%(how)s on %(nodes)s nodes",
        "%(devices)s devices%(how)s on %(nodes)s nodes",
        "devices",
    ),
    "place.how": MessageTemplate(" (%(parts)s)"),
    "place.carved": MessageTemplate("%(number)s carved"),
    "place.ready": MessageTemplate("%(number)s ready"),
    "place.shared": MessageTemplate("%(number)s shared"),
}

# What a gang is short of: `what` and `each` of the sentences below.
_SHORT = {
    "short.devices": MessageTemplate("GPUs"),
    "short.cpu": MessageTemplate("CPUs"),
    "short.memory": MessageTemplate("memory"),
    "short.disk": MessageTemplate("disk"),
    "each.cpu": MessageTemplate(" with %(amount)s CPUs each"),
    "each.memory": MessageTemplate(" with %(amount)s of memory each"),
    "each.disk": MessageTemplate(" with %(amount)s of disk each"),
}

PLANNER_TEMPLATES: dict[str, MessageTemplate] = {
    **_PARTS,
    **_REASONS,
    **_QUOTA,
    **_UNBLOCKS,
    **_INSTEAD,
    **_BOUNDS,
    **_ESTIMATES,
    **_PLACES,
    **_SHORT,
    **NEVER,
    **FITS,
}
TEMPLATES.update(PLANNER_TEMPLATES)


def make_message(key: str, **values: Any) -> Message:
    """A message with a name. Raises KeyError for an unknown name or a missing value."""
    TEMPLATES[key]
    return Message(key, **values)


def owner_label(project: str, user: str = "") -> Message | str:
    """The owner of a quota or a budget: a project, or a user in it."""
    return make_message("user.in_project", user=user, project=project) if user else project


def dependency_label(dependency: str) -> str:
    """Of a job by its number, or of an array, which is its label."""
    return dependency if dependency.startswith("A-") else f"J-{dependency}"
