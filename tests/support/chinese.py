"""The Chinese message catalogue, as pages use it."""

import gettext
from functools import cache
from pathlib import Path

PORTAL = Path(__file__).resolve().parents[2] / "portal"


FOLDER = PORTAL / "locale" / "zh_Hans" / "LC_MESSAGES"


@cache
def chinese_catalogue() -> gettext.GNUTranslations:
    with (FOLDER / "django.mo").open("rb") as compiled:
        return gettext.GNUTranslations(compiled)


def in_chinese(one: str, many: str, number: int) -> str:
    found = chinese_catalogue()
    return found.ngettext(one, many, number) if many else found.gettext(one) if one else ""
