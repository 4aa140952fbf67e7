"""What pages say about measured pairs of nodes."""

from collections.abc import Iterable

from django.utils.translation import gettext_lazy

from portal.node_pairs.judgement import ExpectationSource, PairVerdict
from portal.node_pairs.models import PairMeasurement
from portal.node_pairs.services import slow_message, wrong_message
from portal.web.cluster.node_health import NodeNote
from portal.web.wording.labels import Badge
from portal.web.wording.messages import message_text

BADGES = {
    PairVerdict.OPEN: Badge("move", "clock", gettext_lazy("Being measured")),
    PairVerdict.OK: Badge("ok", "check", gettext_lazy("As expected")),
    PairVerdict.SLOW: Badge("bad", "alert", gettext_lazy("Slow")),
    PairVerdict.WRONG: Badge("bad", "alert", gettext_lazy("Wrong sums")),
    PairVerdict.UNJUDGED: Badge("wait", "check", gettext_lazy("Measured, not judged")),
    PairVerdict.FAILED: Badge("warn", "x", gettext_lazy("Not measured")),
}
SOURCES = {
    ExpectationSource.LINE_RATE: gettext_lazy("line rate"),
    ExpectationSource.ADMIN: gettext_lazy("by an admin"),
}


def pair_notes(rows: Iterable[PairMeasurement]) -> list[NodeNote]:
    """A line for each bad pair of a node, which says what to check."""
    notes = []
    for row in rows:
        if row.is_bad:
            says = slow_message if row.verdict == PairVerdict.SLOW else wrong_message
            notes.append(NodeNote("warn", "alert", message_text(says(row))))
    return notes
