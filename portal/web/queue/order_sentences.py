"""The queue's order as the current policy makes it, one sentence each."""

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from portal.web.wording.labels import duration
from scheduler.core.model.policy import BackfillMode, OrderMode, Policy, PreemptionMode

ORDER_SENTENCES: dict[OrderMode, str | Promise] = {
    OrderMode.FAIR: gettext_lazy(
        "Inside a band: least expected work first, times what its owner used lately."
    ),
    OrderMode.FIFO: gettext_lazy("Inside a band: who came first goes first."),
    OrderMode.SHORTEST: gettext_lazy("Inside a band: the shortest time limit goes first."),
    OrderMode.SMALLEST: gettext_lazy("Inside a band: the least GPU time by its limit goes first."),
}
BACKFILL_SENTENCES: dict[BackfillMode, str | Promise] = {
    BackfillMode.NONE: gettext_lazy("Nobody starts past the first job that cannot."),
    BackfillMode.SKIP: gettext_lazy("Who does not fit is passed by whoever fits."),
    BackfillMode.EASY: gettext_lazy(
        "The first that cannot start has a time reserved; nobody may delay it."
    ),
    BackfillMode.CONSERVATIVE: gettext_lazy("Whoever starts earlier delays nobody ahead of it."),
}


def order_sentences(policy: Policy) -> list[str]:
    sentences = [
        _("Bands first: high, then normal, then low."),
        str(ORDER_SENTENCES[policy.order]),
    ]
    if policy.order is OrderMode.FAIR:
        patience = duration(policy.patience_seconds)
        sentences.append(
            _("After a wait of %(time)s a job counts as half as large.") % {"time": patience}
        )
    sentences.append(str(BACKFILL_SENTENCES[policy.backfill]))
    if policy.backfill is not BackfillMode.NONE:
        limit = f"{policy.bypass_limit:,}"
        sentences.append(_("A job overtaken %(n)s times is first in its band.") % {"n": limit})
    if policy.preemption is not PreemptionMode.OFF:
        sentences.append(_("Jobs that say they may be stopped can be stopped for others."))
    return sentences
