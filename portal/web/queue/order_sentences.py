"""The queue's order as the current policy makes it, one sentence each."""

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from portal.web.wording.labels import duration
from scheduler.core.model.policy import (
    BackfillMode,
    OrderMode,
    Policy,
    PreemptionMode,
    QuotaPreemption,
)

ORDER_SENTENCES: dict[OrderMode, str | Promise] = {
    OrderMode.FAIR: gettext_lazy(
        "Within a band: the least expected work goes first, weighted by its owner's recent usage."
    ),
    OrderMode.FIFO: gettext_lazy("Within a band: first come, first served."),
    OrderMode.SHORTEST: gettext_lazy("Within a band: the shortest time limit goes first."),
    OrderMode.SMALLEST: gettext_lazy(
        "Within a band: the least GPU time, by time limit, goes first."
    ),
}
BACKFILL_SENTENCES: dict[BackfillMode, str | Promise] = {
    BackfillMode.NONE: gettext_lazy("No job starts ahead of the first one that cannot."),
    BackfillMode.SKIP: gettext_lazy("Jobs that fit start ahead of jobs that do not."),
    BackfillMode.EASY: gettext_lazy(
        "The first job that cannot start gets a reserved time that no other job may delay."
    ),
    BackfillMode.CONSERVATIVE: gettext_lazy(
        "A job starts early only if it delays no job ahead of it."
    ),
}

QUOTA_SENTENCES: dict[QuotaPreemption, str | Promise] = {
    QuotaPreemption.OWNER: gettext_lazy(
        "In a full quota, your urgent job stops your own preemptible jobs of lower priority."
    ),
    QuotaPreemption.PROJECT: gettext_lazy(
        "In a full quota, an urgent job stops preemptible jobs of lower priority in its project."
    ),
}


def order_sentences(policy: Policy) -> list[str]:
    sentences = [
        _("Priority bands first: high, then normal, then low."),
        str(ORDER_SENTENCES[policy.order]),
    ]
    if policy.order is OrderMode.FAIR:
        patience = duration(policy.patience_seconds)
        sentences.append(
            _("After waiting %(time)s, a job counts as half its size.") % {"time": patience}
        )
    sentences.append(str(BACKFILL_SENTENCES[policy.backfill]))
    if policy.backfill is not BackfillMode.NONE:
        limit = f"{policy.bypass_limit:,}"
        sentences.append(_("A job bypassed %(n)s times goes first in its band.") % {"n": limit})
    if policy.preemption is not PreemptionMode.OFF:
        sentences.append(_("Preemptible jobs can be stopped for other jobs."))
        if sentence := QUOTA_SENTENCES.get(policy.quota_preemption):
            sentences.append(str(sentence))
    return sentences
