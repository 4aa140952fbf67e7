"""`make screenshots`: every page of a seeded cluster as a picture under docs/screenshots/.

All of them in light; those that people see most also in dark, in Chinese and as on a phone.
Pictures show the first screen, so that all together stay small.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser.seeded_web import REPOSITORY, seeded_web
from tests.browser.test_every_page import signed_in
from tests.environment.chromium import CHROMIUM_ARGS
from tests.environment.debian import CHROMIUM

FOLDER = REPOSITORY / "docs" / "screenshots"
MOST_BYTES = 6 * 1024 * 1024
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
LOOKS = {
    "light": (WIDE, "light", "en"),
    "dark": (WIDE, "dark", "en"),
    "zh": (WIDE, "light", "zh-hans"),
    "narrow": (NARROW, "light", "en"),
}
# Pages that look like another one.
LEFT_OUT = {"api:docs", "web:job_logs", "web:image_policy", "web:template_new"}
# What is shown in every look.
KEY = {
    *("web:home", "web:request", "web:jobs", "web:job", "web:queue", "web:cluster"),
    *("web:cluster_node", "web:usage", "web:console"),
}


def main() -> int:
    path = CHROMIUM.path()
    if path is None:
        print("Chromium is not installed: `make test` as root installs it")
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.png"):
        old.unlink()
    with (
        tempfile.TemporaryDirectory() as var,
        seeded_web(Path(var), jobs=2_000, nodes=120, users=60, projects=8) as web,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGS)
        for look, (size, scheme, language) in LOOKS.items():
            for who in sorted({reader for reader, _ in web.pages.values()}):
                page = signed_in(
                    browser,
                    web,
                    who,
                    viewport=size,
                    color_scheme=scheme,
                    reduced_motion="reduce",
                    extra_http_headers={"Accept-Language": language},
                )
                for name, (reader, address) in web.pages.items():
                    is_shown = name in KEY or look == "light"
                    if reader != who or name in LEFT_OUT or not is_shown:
                        continue
                    page.goto(f"{web.url}{address}", wait_until="load")
                    target = FOLDER / f"{name.rpartition(':')[2].replace('_', '-')}-{look}.png"
                    page.screenshot(path=target, animations="disabled", caret="hide")
                page.context.close()
        browser.close()
    size_now = sum(picture.stat().st_size for picture in FOLDER.glob("*.png"))
    print(f"{len(list(FOLDER.glob('*.png')))} pictures, {size_now / 1024 / 1024:.1f} MiB")
    return 0 if size_now < MOST_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
