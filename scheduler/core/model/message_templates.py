"""Every sentence that the planner says, in English, by its key. Pages translate these texts.

The first word of a key is its room: what a reason says, what `unblocks` it, what would start
`instead`, what an estimate rests on, which `place` it got, what can `never` run, why a placement no
longer `fits`.
"""

import re
from dataclasses import dataclass

HOLE = re.compile(r"%\((\w+)\)s")


@dataclass(frozen=True, slots=True)
class Template:
    """`many` is said where the value called `count` is not 1; "" where it makes no difference."""

    one: str
    many: str = ""
    count: str = ""

    @property
    def holes(self) -> frozenset[str]:
        """The values that it needs."""
        return frozenset(HOLE.findall(self.one + self.many))


_PARTS = {
    "nothing": Template(""),
    "words": Template("%(words)s"),
    "clause.then": Template("%(first)s; %(then)s"),
    "clause.colon": Template("%(first)s: %(then)s"),
    "clause.and": Template("%(first)s and %(then)s"),
    "clause.or": Template("%(first)s or %(then)s"),
    "clause.more": Template("%(first)s and %(more)s more"),
    "device.slice": Template("%(profile)s of %(model)s"),
    "device.share": Template("%(threads)s %% of %(model)s"),
    "user.in_project": Template("%(user)s in %(project)s"),
}

_REASONS = {
    "resources.devices": Template("%(needed)s \u00d7 %(device)s needed, %(free)s free"),
    "resources.host": Template(
        "%(needed)s \u00d7 %(device)s could be had, but no node has the CPU and memory free"
    ),
    "resources.disk": Template(
        "%(needed)s \u00d7 %(device)s could be had, but no such node has %(disk)s of disk free"
    ),
    "resources.disk_not_told": Template(
        "%(needed)s \u00d7 %(device)s could be had, "
        "but no such node is known to have %(disk)s of disk"
    ),
    "topology.apart": Template("%(free)s \u00d7 %(device)s free, but on different nodes"),
    "fragmentation.apart": Template(
        "%(free)s \u00d7 %(device)s free in total, but not where they fit together"
    ),
    "repartition.merging": Template(
        "Idle slices are merged to make room; it starts in a few seconds"
    ),
    "priority.taken": Template("Jobs ahead of it take what is free now"),
    "priority.behind": Template("A job ahead of it waits, and nobody may pass it"),
    "priority.stopping": Template(
        "It waits until %(jobs)s has stopped", "It waits until %(jobs)s have stopped", "number"
    ),
    "reservation.kept": Template("It would delay %(job)s, which is ahead and has a place reserved"),
    "reservation.quota": Template(
        "It would take quota from %(job)s, which later jobs have overtaken too often"
    ),
    "node_unavailable.none": Template("No node has been added yet"),
    "node_unavailable.all": Template("No node that could run it takes work: %(why)s"),
    "node_unavailable.more": Template("and %(more)s more"),
    "node.enrolled": Template("%(node)s is enrolled, but was not heard of yet"),
    "node.unreachable": Template("%(node)s is unreachable"),
    "node.lost": Template("%(node)s is lost"),
    "node.cordoned": Template("%(node)s is cordoned: %(why)s"),
    "node.cordoned_silently": Template("%(node)s is cordoned: no reason given"),
    "node.blocks": Template("%(node)s blocks itself (%(why)s)"),
    "node.no_label": Template("%(node)s has no label %(label)s"),
    "node.tainted": Template("%(node)s is kept for jobs that tolerate %(taint)s"),
    "held": Template("It is held: %(because)s"),
    "begin_time": Template("It asks to begin later"),
    "dependency": Template("It starts after %(jobs)s"),
    "approval.units": Template(
        "An admin of %(project)s approves what holds more than %(gpus)s GPUs; "
        "this job holds %(needed)s"
    ),
    "approval.time": Template(
        "An admin of %(project)s approves what may run longer than %(limit)s; "
        "this job may run %(needed)s"
    ),
    "approval.gpu_hours": Template(
        "An admin of %(project)s approves what may use more than %(hours)s GPU-hours; "
        "this job may use %(needed)s"
    ),
    "approval.high": Template("An admin of %(project)s approves what has priority high"),
}

_QUOTA = {
    "quota.may_hold": Template(
        "%(whose)s may hold %(limit)s GPU at once",
        "%(whose)s may hold %(limit)s GPUs at once",
        "limit",
    ),
    "quota.may_hold_of": Template(
        "%(whose)s may hold %(limit)s GPU of %(model)s at once",
        "%(whose)s may hold %(limit)s GPUs of %(model)s at once",
        "limit",
    ),
    "quota.left": Template(
        "%(left)s is left, this needs %(needed)s",
        "%(left)s are left, this needs %(needed)s",
        "left",
    ),
    "quota.has_borrowed": Template("%(first)s and has borrowed %(borrowed)s more"),
    "quota.lent": Template("%(further)s more can be borrowed now, this needs %(needed)s"),
    "quota.lent_and_left": Template(
        "%(left)s is left, and %(further)s more can be borrowed now, this needs %(needed)s",
        "%(left)s are left, and %(further)s more can be borrowed now, this needs %(needed)s",
        "left",
    ),
    "quota.borrows_enough": Template("it may borrow no more, this needs %(needed)s"),
    "quota.borrows_enough_and_left": Template(
        "%(left)s is left, and it may borrow no more, this needs %(needed)s",
        "%(left)s are left, and it may borrow no more, this needs %(needed)s",
        "left",
    ),
    "quota.nothing_lent": Template("nothing more is lent now, this needs %(needed)s"),
    "quota.nothing_lent_and_left": Template(
        "%(left)s is left, and nothing more is lent now, this needs %(needed)s",
        "%(left)s are left, and nothing more is lent now, this needs %(needed)s",
        "left",
    ),
    "quota.taken": Template("%(gpus)s borrowed by other projects"),
    "quota.held_by": Template("held by %(names)s"),
    "quota.others": Template(
        "%(number)s other (%(gpus)s)", "%(number)s others (%(gpus)s)", "number"
    ),
    "budget.used_up": Template(
        "%(whose)s may use %(limit)s GPU-hours until %(day)s: %(used)s are used, "
        "%(held)s are held by running work, %(left)s are left; this may take %(needed)s"
    ),
    "budget.fitting": Template("%(first)s. A limit of %(limit)s would fit"),
    "pending_limit.running": Template(
        "%(whose)s may run %(most)s job at once and runs %(runs)s",
        "%(whose)s may run %(most)s jobs at once and runs %(runs)s",
        "most",
    ),
}

_UNBLOCKS = {
    "unblocks.running_ends": Template("It starts when running work ends"),
    "unblocks.any_topology": Template("Topology any would spread it"),
    "unblocks.nothing_to_do": Template("Nothing to do"),
    "unblocks.node_added": Template("An admin adds a node"),
    "unblocks.agent_updated": Template("An admin updates the agents, so that they tell it"),
    "unblocks.node_back": Template("An admin brings one back"),
    "unblocks.those_ahead": Template("It starts when those ahead of it have started"),
    "unblocks.shorter": Template(
        "A shorter time limit may let it start before; else it starts after"
    ),
    "unblocks.quota_kept": Template("It starts after %(job)s, or when an admin raises the quota"),
    "unblocks.released": Template("Whoever holds it, or an admin, releases it"),
    "unblocks.begin_time": Template("It waits for its begin time"),
    "unblocks.those_end": Template("Those end"),
    "unblocks.quota": Template(
        "It starts when other work of the quota ends, or when an admin raises it"
    ),
    "unblocks.lent": Template(
        "It starts when other work of the quota ends, or when others lend more"
    ),
    "unblocks.cap": Template("It starts when one of them ends, or when an admin raises the cap"),
    "unblocks.limit": Template("Set a time limit of at most %(limit)s, or ask an admin for more"),
    "unblocks.budget": Template("Ask an admin for a larger budget"),
    "unblocks.change": Template("Change the request"),
    "unblocks.approved": Template("It is queued when an admin approves it"),
}

_INSTEAD = {
    "instead.any_node": Template("On any node, whatever its labels"),
    "instead.any_model": Template("On any model of GPU"),
    "instead.spread": Template("With its replicas on several nodes"),
    "instead.limit": Template("With a time limit of %(limit)s"),
    "instead.memory": Template("On whatever has %(memory)s of GPU memory"),
    "instead.share": Template("As an MPS share with %(memory)s, beside others of the project"),
    "instead.gpus": Template(
        "With %(gpus)s GPU for each replica", "With %(gpus)s GPUs for each replica", "gpus"
    ),
    "instead.profile": Template("With %(profile)s"),
    "instead.replicas": Template(
        "With %(replicas)s replica", "With %(replicas)s replicas", "replicas"
    ),
}

_ESTIMATES = {
    "basis.forecasts": Template(
        "%(runs)s forecasts from %(ended)s ended runs and the limits of %(limits)s running jobs"
    ),
    "basis.corrected": Template("%(first)s, corrected by %(known)s earlier forecasts"),
    "basis.reserved": Template("%(first)s, not after its reserved start"),
    "no_estimate.nothing": Template("no estimate: nothing to go by"),
    "no_estimate.quota": Template("no estimate: it waits for quota"),
    "no_estimate.budget": Template("no estimate: it waits for budget"),
    "no_estimate.pending_limit": Template("no estimate: as many run as may run at once"),
    "no_estimate.approval": Template("no estimate: it waits for approval"),
    "no_estimate.held": Template("no estimate: it is held"),
    "no_estimate.dependency": Template("no estimate: it waits for other jobs"),
    "no_estimate.node_unavailable": Template("no estimate: it waits for a node"),
    "no_estimate.impossible": Template("no estimate: it cannot run here"),
    "no_estimate.begin_time": Template("not before %(time)s"),
}

_PLACES = {
    "place.one_node": Template(
        "%(devices)s device%(how)s on one node", "%(devices)s devices%(how)s on one node", "devices"
    ),
    "place.nodes": Template(
        "%(devices)s device%(how)s on %(nodes)s nodes",
        "%(devices)s devices%(how)s on %(nodes)s nodes",
        "devices",
    ),
    "place.how": Template(" (%(parts)s)"),
    "place.carved": Template("%(number)s carved"),
    "place.ready": Template("%(number)s ready"),
    "place.shared": Template("%(number)s shared"),
}

_NEVER = {
    "never.no_shares": Template(
        "No node here gives MPS shares. Ask for a MIG slice or a whole GPU"
    ),
    "never.profile": Template(
        "No GPU here has the profile %(profile)s. Profiles here: %(profiles)s"
    ),
    "never.no_mig": Template(
        "No GPU here has the profile %(profile)s. Profiles here: none, these boards have no MIG"
    ),
    "never.memory": Template("No GPU here has %(asked)s MiB; the largest has %(largest)s MiB"),
    "never.model": Template("There is no %(asked)s here. GPUs here: %(boards)s"),
    "never.one_node": Template(
        "%(needed)s replicas on one node are asked for; the largest node takes %(most)s"
    ),
    "never.network": Template(
        "%(needed)s replicas are asked for; the largest network takes %(most)s"
    ),
    "never.cluster": Template(
        "%(needed)s replicas are asked for; the whole cluster takes %(most)s"
    ),
    "never.gpus": Template(
        "No node has %(needed)s GPU of %(board)s; the largest has %(most)s",
        "No node has %(needed)s GPUs of %(board)s; the largest has %(most)s",
        "needed",
    ),
    "never.processes": Template(
        "%(needed)s processes in one share; MPS takes %(most)s on a GPU of %(board)s"
    ),
    "never.host": Template(
        "No node with this GPU has %(cpu)s millicores and %(memory)s MiB; "
        "the largest has %(most_cpu)s and %(most_memory)s"
    ),
    "never.disk": Template(
        "No node with this GPU has %(disk)s of disk for jobs; the largest has %(most)s"
    ),
    "never.quota": Template(
        "This needs %(needed)s GPUs; %(whose)s may hold at most %(most)s. "
        "Ask for less, or ask an admin for more"
    ),
    "never.quota_of": Template(
        "This needs %(needed)s GPUs; %(whose)s may hold at most %(most)s of %(model)s. "
        "Ask for less, or ask an admin for more"
    ),
}

_FITS = {
    "fits.ranks": Template("the placement does not name every rank once"),
    "fits.node_gone": Template("a node of the placement is gone"),
    "fits.one_node": Template("the request asks for one node"),
    "fits.network": Template("the nodes do not share a network"),
    "fits.nvlink": Template("NVLink does not join these GPUs"),
    "fits.host": Template("%(node)s lacks CPU, memory or disk"),
    "fits.gpu_elsewhere": Template("the GPU is not on this node"),
    "fits.out_of_service": Template("GPU %(gpu)s of %(node)s is out of service"),
    "fits.idle_slice": Template("the idle slice was taken or changed"),
    "fits.gpu_taken": Template("the GPU is no longer empty"),
    "fits.share_room": Template("there is no longer room for this share on the GPU"),
    "fits.place_taken": Template("its place on the GPU is no longer free"),
}

TEMPLATES: dict[str, Template] = {
    **_PARTS,
    **_REASONS,
    **_QUOTA,
    **_UNBLOCKS,
    **_INSTEAD,
    **_ESTIMATES,
    **_PLACES,
    **_NEVER,
    **_FITS,
}
