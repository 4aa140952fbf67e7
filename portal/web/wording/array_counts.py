"""How the members of an array stand, in words: "37 running, 60 waiting, 3 failed"."""

from django.utils.translation import gettext as _

from agents.contract.message import SEPARATOR
from portal.arrays.selectors import MemberCounts


def counts_text(counts: MemberCounts) -> str:
    """Only what there is."""
    words = (
        (counts.running, _("%(n)s running")),
        (counts.waiting, _("%(n)s waiting")),
        (counts.succeeded, _("%(n)s succeeded")),
        (counts.failed, _("%(n)s failed")),
        (counts.cancelled, _("%(n)s cancelled")),
    )
    return _(SEPARATOR).join(text % {"n": f"{count:,}"} for count, text in words if count)
