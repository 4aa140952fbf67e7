"""The queues of Celery, by kind of work, which task waits in which, and the sweep's period.

A worker takes from all of them in turn, so each kind waits for at most one task of every other
kind; `celery worker -Q` limits a worker to some (docs/operations.md). All names begin with
`celery`, as the rights of the broker's user in Redis do.
"""

# The sweep, alone: whatever else waits, deadlines and lost nodes are looked after. Also Celery's
# default, so that workers still take what an older portal sent.
SWEEP = "celery"
PLAN = "celery.plan"
DRIVE = "celery.drive"
# Estimates, diagnoses, webhooks, notices, reports, retention: nobody's job waits for them.
SLOW = "celery.slow"
# Replays start a process on the worker's host.
WHAT_IF = "celery.what_if"

# From one ring of the sweep to the next. With a step of a pass before it, which takes 2 s, one is
# completed every 5 s (docs/benchmarks.md).
SWEEP_SECONDS = 3.0

NAMES = (SWEEP, PLAN, DRIVE, SLOW, WHAT_IF)
QUEUES = {name: {"exchange": name, "routing_key": name} for name in NAMES}

ROUTES = {
    "scheduler.tasks.sweep": {"queue": SWEEP},
    "scheduler.tasks.plan": {"queue": PLAN},
    "scheduler.tasks.drive": {"queue": DRIVE},
    "scheduler.tasks.site": {"queue": DRIVE},
    "scheduler.tasks.services": {"queue": DRIVE},
    "scheduler.tasks.foretell": {"queue": SLOW},
    "scheduler.tasks.diagnose": {"queue": SLOW},
    "portal.webhooks.tasks.deliver": {"queue": SLOW},
    "portal.notices.tasks.deliver": {"queue": SLOW},
    "portal.usage.tasks.monthly_report": {"queue": SLOW},
    "portal.apps.tasks.remove": {"queue": SLOW},
    "portal.idempotency.tasks.expire": {"queue": SLOW},
    "portal.retention.tasks.remove": {"queue": SLOW},
    "portal.idle.tasks.sweep": {"queue": SLOW},
    "portal.what_if.tasks.carry_out": {"queue": WHAT_IF},
    "portal.what_if.tasks.start_waiting": {"queue": WHAT_IF},
}
