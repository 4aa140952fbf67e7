"""`make screenshots`: every page of a seeded cluster as pictures under docs/screenshots/.

Each page in light, in dark, in Chinese and as on a phone, and an index of all of them. Pictures
show the first screen as WebP, so that all together stay small. Chinese needs Debian's
fonts-noto-cjk: without it, its pictures would show empty boxes.
"""

from __future__ import annotations

import base64
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.browser.people import NARROW
from tests.browser.seeded_web import REPOSITORY, WIDE, Web, seeded_web, signed_in
from tests.environment.chromium import CHROMIUM_ARGS
from tests.environment.debian import CHINESE_FONT, CHROMIUM

FOLDER = REPOSITORY / "docs" / "screenshots"
MOST_BYTES = 8 * 1024 * 1024
QUALITY = 35
# A page is loaded once in each language.
LOOKS = {
    "en": {"light": (WIDE, "light"), "dark": (WIDE, "dark"), "narrow": (NARROW, "light")},
    "zh-hans": {"zh": (WIDE, "light")},
}
LOOK_NAMES = [look for looks in LOOKS.values() for look in looks]
# Swagger's own page.
LEFT_OUT = {"api:docs"}


def main() -> int:
    path = CHROMIUM.path()
    if path is None:
        print("Chromium is not installed: `make test` as root installs it")
        return 1
    if not CHINESE_FONT.path():
        print(f"No Chinese font: `apt-get install {CHINESE_FONT.package}` first")
        return 1
    with (
        tempfile.TemporaryDirectory() as var,
        seeded_web(Path(var), jobs=800, nodes=24, users=12, projects=6) as web,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGS)
        taken = {}
        for who in web.readers():
            page = signed_in(browser, web, who, reduced_motion="reduce")
            taken |= dict(pictures(page, web, who))
            page.context.close()
        browser.close()
    write(taken)
    size = sum(map(len, taken.values()))
    print(f"{len(taken)} pictures, {size / 1024 / 1024:.1f} MiB")
    return 0 if size < MOST_BYTES else 1


def pictures(page: Page, web: Web, who: str) -> Iterator[tuple[str, bytes]]:
    """(file name, picture) of each page that somebody looks at first, in each look."""
    devtools = page.context.new_cdp_session(page)
    for name, (reader, address) in web.pages.items():
        if reader != who or name in LEFT_OUT:
            continue
        for language, looks in LOOKS.items():
            page.set_extra_http_headers({"Accept-Language": language})
            answer = page.goto(f"{web.url}{address}", wait_until="load")
            assert answer is not None
            assert answer.ok, f"{address} answered {answer.status}"
            for look, (size, theme) in looks.items():
                page.set_viewport_size(size)
                page.emulate_media(color_scheme=theme)
                yield f"{file_name(name)}-{look}.webp", picture(page, devtools)


def picture(page: Page, devtools) -> bytes:
    page.evaluate("document.fonts.ready.then(() => window.scrollTo(0, 0))")
    shot = devtools.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    return base64.b64decode(shot["data"])


def file_name(page: str) -> str:
    return page.rpartition(":")[2].replace("_", "-")


def write(taken: dict[str, bytes]) -> None:
    """The new pictures and their index, and nothing of before."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.iterdir():
        if old.suffix in (".png", ".webp"):
            old.unlink()
    for name, data in taken.items():
        (FOLDER / name).write_bytes(data)
    pages = sorted({name.rpartition("-")[0] for name in taken})
    (FOLDER / "README.md").write_text("\n".join(index(pages)) + "\n", "utf-8")


def index(pages: Iterable[str]) -> Iterator[str]:
    yield "# Every page\n"
    yield "Written by `make screenshots` from a seeded cluster: a change by hand is lost.\n"
    yield f"| page | {' | '.join(LOOK_NAMES)} |"
    yield f"|---|{'---|' * len(LOOK_NAMES)}"
    for page in pages:
        shown = (f"[{look}]({page}-{look}.webp)" for look in LOOK_NAMES)
        yield f"| {page.replace('-', ' ')} | {' | '.join(shown)} |"


if __name__ == "__main__":
    sys.exit(main())
