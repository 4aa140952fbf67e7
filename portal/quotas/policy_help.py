"""What each option of the planner's policy is called, what it does, and the group that it is in."""

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

POLICY_HELP: dict[str, Promise] = {
    "order": _(
        "The order of jobs within a priority. fair: by expected work and the owner's recent usage. "
        "fifo: by time of submission. shortest, smallest: by time limit, or by time limit x "
        "GPUs."
    ),
    "backfill": _(
        "Which jobs may start before a blocked one. easy: those that do not delay the first "
        "blocked jobs. conservative: those that delay no job ahead of them. skip: all that fit."
    ),
    "preemption": _(
        "Which preemptible jobs may be stopped. priority: those of lower priority, and those on "
        "borrowed quota that the lender needs. order: also those later in the order."
    ),
    "quota_preemption": _(
        "Whose preemptible jobs of lower priority may be stopped for an urgent job that finds the "
        "quota full. owner: those of its owner. project: also those of others in the project."
    ),
    "merge": _("Delete idle slices to make room."),
    "warm": _(
        "Carve slices ahead of demand, as recent requests suggest, and delete idle ones that are "
        "in the way. Pinned GPUs are left alone."
    ),
    "reservations": _("How many blocked jobs get a reserved start time (backfill: easy)."),
    "hysteresis": _("By what factor a job must be earlier in the order to stop a running one."),
    "protection_seconds": _(
        "A running job is not stopped in this time. It doubles with each preemption of the job."
    ),
    "patience_seconds": _(
        "A job that has waited this long counts as half its size; after twice as long, as a third."
    ),
    "bypass_limit": _("A job that was bypassed this many times goes first."),
    "moves": _("How many restartable jobs may be moved to make room for one job. 0: none."),
    "half_life_seconds": _("Past usage counts half after this time."),
}
POLICY_LABELS: dict[str, Promise] = {
    "order": _("Order of jobs"),
    "backfill": _("Backfill"),
    "preemption": _("Preemption"),
    "quota_preemption": _("Preemption within a full quota"),
    "merge": _("Merge idle slices"),
    "warm": _("Carve ahead of demand"),
    "reservations": _("Reservations"),
    "hysteresis": _("Lead that stops a running job"),
    "protection_seconds": _("Protected after its start"),
    "patience_seconds": _("Patience"),
    "bypass_limit": _("Bypasses before a job goes first"),
    "moves": _("Jobs moved for one job"),
    "half_life_seconds": _("Half-life of past usage"),
}
# Every option is in one group.
POLICY_GROUPS: tuple[tuple[Promise, tuple[str, ...]], ...] = (
    (_("Who is next"), ("order", "half_life_seconds", "patience_seconds", "bypass_limit")),
    (_("Who may start before a blocked job"), ("backfill", "reservations")),
    (
        _("Who may be stopped or moved"),
        ("preemption", "quota_preemption", "protection_seconds", "hysteresis", "moves"),
    ),
    (_("How GPUs are divided"), ("merge", "warm")),
)
