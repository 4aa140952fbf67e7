"""The Chinese pages are whole: every string is translated, with the same placeholders."""

import gettext
import re

from tests.support.chinese import FOLDER, PORTAL

TEMPLATES = PORTAL.parent / "templates"
TAGGED = re.compile(r"""\{%\s*translate\s+(?:"([^"]+)"|'([^']+)')""")
WHOLE = re.compile(r"\{%\s*blocktranslate[^%]*%\}(.+?)\{%\s*endblocktranslate", re.S)
VALUE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
COUNTED = re.compile(r"""\bngettext\(\s*"((?:[^"\\]|\\.)+)",""")
CALLED = re.compile(r"""\b(?:_|gettext|gettext_lazy)\(\s*"((?:[^"\\]|\\.)+)"\s*\)""")
HOLE = re.compile(r"%\((\w+)\)s")


def catalogue() -> dict[str, str]:
    with (FOLDER / "django.mo").open("rb") as compiled:
        found = gettext.GNUTranslations(compiled)._catalog  # type: ignore[attr-defined]
    return {key if isinstance(key, str) else key[0]: text for key, text in found.items()}


def used() -> set[str]:
    """The strings of templates and code that are written in one piece."""
    found = {
        one or other
        for page in TEMPLATES.rglob("*.html")
        for one, other in TAGGED.findall(page.read_text("utf-8"))
    }
    for page in TEMPLATES.rglob("*.html"):
        for text in WHOLE.findall(page.read_text("utf-8")):
            found.add(VALUE.sub(r"%(\1)s", text.partition("{%")[0]))
    rooms = ("web", "usage", "notices", "webhooks")
    for code in [path for room in rooms for path in (PORTAL / room).rglob("*.py")]:
        text = code.read_text("utf-8")
        found |= set(CALLED.findall(text)) | set(COUNTED.findall(text))
    return found


def test_the_search_finds_strings_at_all():
    assert {"New request", "Can start now", "Online"} <= used()
    assert {"for %(since)s", "%(n)s GPU", "GPU %(gpus)s: %(why)s"} <= used()


def test_every_string_of_a_page_is_translated():
    assert used() - set(catalogue()) == set()


def test_no_translation_is_empty_or_loses_a_value():
    for key, text in catalogue().items():
        if not key:
            continue
        assert text.strip(), key
        assert set(HOLE.findall(text)) == set(HOLE.findall(key)), key


def test_a_job_has_one_word():
    """作业 is a job; 任务 only in "background task", which is none of a user's."""
    texts = (text.replace("后台任务", "") for text in catalogue().values())
    assert [text for text in texts if "任务" in text] == []


def test_the_compiled_file_is_that_of_the_source():
    source = (FOLDER / "django.po").read_text("utf-8")
    written = [eval(text) for text in re.findall(r'^msgstr(?:\[0\])? (".+")$', source, re.M)]
    assert {text for text in written if text} <= set(catalogue().values())
