"""What tags write as HTML in Python, for speed, escapes what people chose."""

import pytest

from portal.quotas.limits import LimitEffect
from portal.web.cluster.cell import Cell
from portal.web.queue.freeing_chart import FreeingBar
from portal.web.queue.order_score import OrderScore
from portal.web.templatetags.cluster import map_cell
from portal.web.templatetags.console import limit_effects
from portal.web.templatetags.tessera import as_status, with_code
from portal.web.wording.labels import Badge
from portal.web.wording.times import text_with_elements

HOSTILE = "\"'><script>x</script>&"


@pytest.mark.parametrize(
    "written",
    [
        lambda: limit_effects([LimitEffect(False, HOSTILE, limit=1, before=0, after=2)]),
        lambda: limit_effects([LimitEffect(True, HOSTILE, limit=3, before=0, after=2)]),
        lambda: as_status(Badge("ok", "check", HOSTILE)),
        lambda: map_cell(
            Cell("mine", 0, 2, 8, label=HOSTILE, sublabel=HOSTILE, title=HOSTILE, href=HOSTILE)
        ),
        lambda: FreeingBar(0, 1, 0, 1, 0, 1, label=HOSTILE, title=HOSTILE).svg,
        lambda: OrderScore(HOSTILE, 1, 1, HOSTILE).bar,
        lambda: with_code(f"{HOSTILE} `{HOSTILE}`"),
        lambda: text_with_elements(f"{HOSTILE} not before 2026-11-25 18:00 UTC"),
    ],
    ids=["limit", "budget", "badge", "cell", "freeing", "score", "code", "sentence"],
)
def test_what_people_chose_is_text(written):
    html = str(written())
    assert "<script" not in html and "'>" not in html.replace("' >", "")
    assert "&lt;script&gt;" in html and "&amp;" in html
