"""How the order of the queue is made, in words: what the policy says now, one line each."""

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from portal.web.wording.labels import duration
from scheduler.core.model.policy import Backfill, Order, Policy, Preemption

ORDER_SAID: dict[Order, str | Promise] = {
    Order.FAIR: gettext_lazy(
        "Inside a band: least expected work first, times what its owner used lately."
    ),
    Order.FIFO: gettext_lazy("Inside a band: who came first goes first."),
    Order.SHORTEST: gettext_lazy("Inside a band: the shortest time limit goes first."),
    Order.SMALLEST: gettext_lazy("Inside a band: the least GPU time by its limit goes first."),
}
BACKFILL_SAID: dict[Backfill, str | Promise] = {
    Backfill.NONE: gettext_lazy("Nobody starts past the first job that cannot."),
    Backfill.SKIP: gettext_lazy("Who does not fit is passed by whoever fits."),
    Backfill.EASY: gettext_lazy(
        "The first that cannot start has a time reserved; nobody may delay it."
    ),
    Backfill.CONSERVATIVE: gettext_lazy("Whoever starts earlier delays nobody ahead of it."),
}


def order_told(policy: Policy) -> list[str]:
    said = [
        _("Bands first: high, then normal, then low."),
        str(ORDER_SAID[policy.order]),
    ]
    if policy.order is Order.FAIR:
        patience = duration(policy.patience_seconds)
        said.append(
            _("After a wait of %(time)s a job counts as half as large.") % {"time": patience}
        )
    said.append(str(BACKFILL_SAID[policy.backfill]))
    if policy.backfill is not Backfill.NONE:
        limit = f"{policy.bypass_limit:,}"
        said.append(_("A job overtaken %(n)s times is first in its band.") % {"n": limit})
    if policy.preemption is not Preemption.OFF:
        said.append(_("Jobs that say they may be stopped can be stopped for others."))
    return said
