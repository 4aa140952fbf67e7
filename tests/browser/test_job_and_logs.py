"""People with a browser on the Job and the Logs page: follow, scroll, look for words, read."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.people import NARROW, people, seeded_stack, switch_language
from tests.services.stack import Stack

pytestmark = pytest.mark.browser
# What a browser writes when the server goes away under a stream, and while it stays away.
AWAY = re.compile(
    r"Failed to load resource: net::ERR_(CONNECTION_(REFUSED|RESET)|INCOMPLETE_CHUNKED_ENCODING)"
)
AT_END = "box => box.scrollHeight - box.scrollTop - box.clientHeight < 24"
TABS = ("logs", "ranks", "metrics", "events", "spec", "results", "files", "terminal")


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with seeded_stack(tmp_path_factory.mktemp("logs"), "tests.services.seed_logs") as stack:
        yield stack


@pytest.fixture
def signed_in(browser, stack):
    with people(browser, stack, "/jobs/") as open_as:
        yield open_as


@pytest.fixture
def signed_in_through_outages(browser, stack):
    with people(browser, stack, "/jobs/", lambda said: bool(AWAY.fullmatch(said))) as open_as:
        yield open_as


def write(stack: Stack, text: str, rank: int = 0) -> None:
    stack.manage_program("tests.services.seed_logs", "write", str(rank), text)


def database_files(process: Path) -> int:
    """How often a process has the database open."""
    held = 0
    for descriptor in (process / "fd").iterdir():
        try:
            held += str(descriptor.readlink()).endswith("tessera.sqlite3")
        except OSError:
            continue
    return held


def logs(page: Page, stack: Stack, **fields) -> None:
    query = "&".join(f"{name}={value}" for name, value in fields.items())
    page.goto(f"{stack.url}/jobs/{stack.seeded['talks']}/logs?{query}")


@pytest.mark.slow
def test_alice_follows_a_log_scrolls_up_in_peace_and_comes_back(signed_in, stack):
    page = signed_in("alice")
    logs(page, stack, rank=0)
    log = page.get_by_role("log")
    line = log.get_by_role("listitem")
    expect(line).to_have_count(1_000)
    expect(log).to_contain_text("<img src=x onerror=alert(1)> red")
    expect(log.locator("img, script")).to_have_count(0)
    assert log.evaluate("box => box.clientHeight >= innerHeight / 2")

    write(stack, "came live\\n")
    expect(line.last).to_contain_text("came live")
    assert log.evaluate(AT_END)
    follow = page.get_by_role("button", name="Follow the end")
    expect(follow).to_be_hidden()

    log.evaluate("box => { box.scrollTop = 0; }")
    expect(follow).to_be_visible()
    write(stack, "while reading\\n")
    expect(line.last).to_contain_text("while reading")
    assert log.evaluate("box => box.scrollTop") == 0
    follow.click()
    expect(follow).to_be_hidden()
    assert log.evaluate(AT_END)


@pytest.mark.slow
def test_a_stream_that_was_cut_goes_on_without_a_line_lost_or_doubled(
    signed_in_through_outages, stack
):
    page = signed_in_through_outages("alice")
    logs(page, stack, rank=1)
    line = page.get_by_role("log").get_by_role("listitem")
    write(stack, "before\\n", rank=1)
    expect(line.last).to_contain_text("before")
    stack.stop("web")
    write(stack, "away\\n", rank=1)
    stack.start_web()
    expect(line.last).to_contain_text("away")
    write(stack, "after\\n", rank=1)
    expect(line.last).to_contain_text("after")
    texts = [text.rpartition("r1")[2] for text in line.all_text_contents()]
    assert texts == ["rank 1 is here", "before", "away", "after"]


@pytest.mark.slow
def test_open_streams_hold_no_connection_to_the_database(signed_in, stack):
    page = signed_in("alice")
    cookies = {cookie["name"]: cookie["value"] for cookie in page.context.cookies()}
    with ExitStack() as opened:
        for _ in range(12):
            stream = stack.http.stream(
                "GET", f"{stack.url}/jobs/{stack.seeded['talks']}/stream", cookies=cookies
            )
            answer = opened.enter_context(stream)
            assert answer.status_code == 200
            lines = answer.iter_lines()
            while not next(lines).startswith("event: page"):
                pass
        assert database_files(Path("/proc") / str(stack.running["web"].pid)) < 4


@pytest.mark.slow
def test_no_more_than_five_thousand_lines_stand_on_the_page(signed_in, stack):
    page = signed_in("alice")
    logs(page, stack, rank=0)
    line = page.get_by_role("log").get_by_role("listitem")
    expect(line).to_have_count(1_000)
    for part in range(3):
        write(stack, "".join(f"{part} many {n}\\n" for n in range(2_000)))
        expect(line.last).to_contain_text(f"{part} many 1999")
    expect(line).to_have_count(5_000)


@pytest.mark.slow
def test_words_are_found_and_lines_wrap_as_one_likes(signed_in, stack):
    page = signed_in("alice")
    logs(page, stack, rank=0)
    log = page.locator(".log.full")
    wrap = page.get_by_role("button", name="Wrap")
    expect(wrap).to_have_attribute("aria-pressed", "true")
    wrap.press("Space")
    expect(wrap).to_have_attribute("aria-pressed", "false")
    expect(log).to_have_class(re.compile("unwrapped"))
    page.get_by_role("searchbox").fill("STEP 42 ".lower())
    page.keyboard.press("Enter")
    expect(log.get_by_role("listitem")).to_have_count(1)
    expect(log).to_contain_text("step 42 ")
    expect(page.get_by_role("searchbox")).to_have_value("step 42 ")
    page.get_by_role("link", name="Back to the end").click()
    page.get_by_role("link", name="Older lines").click()
    expect(log.get_by_role("listitem")).to_have_count(1_000)


@pytest.mark.slow
def test_a_log_fills_the_window_and_its_look_goes_along_on_every_way(signed_in, stack):
    page = signed_in("alice")
    page.goto(f"{stack.url}/jobs/{stack.seeded['talks']}/logs")
    page.get_by_role("link", name="Full width").click()
    log = page.get_by_role("log")
    box, window = log.bounding_box(), page.viewport_size
    assert box["width"] > window["width"] - 100 and box["height"] > window["height"] / 2
    assert page.evaluate("document.documentElement.scrollHeight <= innerHeight")
    page.get_by_role("button", name="Wrap").click()
    page.get_by_role("button", name="Times").click()
    for _ in range(2):
        expect(page).to_have_url(re.compile(r"/logs/full\?.*wrap=0&times=0"))
        expect(log).to_have_class("log full unwrapped untimed")
        page.reload()
    page.get_by_role("link", name="r0", exact=True).click()
    page.get_by_role("searchbox").fill("step 1234 ")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"rank=0&wrap=0&times=0&q=step\+1234\+$"))
    log.get_by_role("link", name="1234").click()
    expect(page.locator("li:target")).to_contain_text("step 1234 ")
    expect(page.locator("li:target")).to_be_in_viewport()
    with page.expect_download() as got:
        page.get_by_role("link", name="Raw").click()
    assert b"step 2499 " in got.value.path().read_bytes()

    page.get_by_role("link", name="Back to the end").click()
    write(stack, "came at full width\\n")
    expect(log.get_by_role("listitem").last).to_contain_text("came at full width")
    assert log.evaluate(AT_END)
    page.get_by_role("link", name="Beside the job").click()
    expect(page).to_have_url(re.compile(r"/logs\?rank=0&wrap=0&times=0$"))


@pytest.mark.slow
def test_a_project_admin_reads_why_it_failed_and_how_to_run_it_again(signed_in, stack):
    page = signed_in("ada")
    page.goto(f"{stack.url}/jobs/{stack.seeded['fell']}/")
    reason = page.locator("[data-part=reason]")
    expect(reason).to_contain_text("RuntimeError: CUDA out of memory")
    page.get_by_role("link", name="Results").click()
    expect(page.locator("[data-part=results]")).to_contain_text("exit 137")
    page.get_by_role("link", name="Spec", exact=True).click()
    expect(page.locator("#cli")).to_contain_text("tessera submit")
    page.get_by_role("link", name="Run again").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("fell")


@pytest.mark.slow
def test_a_foreign_member_finds_nothing(signed_in, stack):
    page = signed_in("eve")
    for tab in ("", *TABS, "log", "stream"):
        answer = page.request.get(f"{stack.url}/jobs/{stack.seeded['talks']}/{tab}")
        assert answer.status == 404, tab
        assert "talks" not in answer.text()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_part_stands_on_a_phone_in_both_languages_without_findings(signed_in, stack, scheme):
    page = signed_in("alice", viewport=NARROW, color_scheme=scheme)
    for _ in range(2):
        for job in ("talks", "fell"):
            for tab in TABS:
                page.goto(f"{stack.url}/jobs/{stack.seeded[job]}/{tab}")
                width = page.evaluate("document.documentElement.scrollWidth")
                assert width <= NARROW["width"], f"{job} {tab} is {width} wide"
                found = Axe().run(page).response["violations"]
                bad = [v["id"] for v in found if v["impact"] in ("serious", "critical")]
                assert bad == [], (job, tab, [v["nodes"][0]["html"] for v in found])
        switch_language(page)


@pytest.mark.slow
def test_without_javascript_a_log_is_read_page_by_page(browser, stack):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{stack.url}/jobs/{stack.seeded['talks']}/logs?rank=0")
    page.get_by_label("User name").fill("alice")
    page.get_by_label("Password", exact=True).fill(stack.seeded["password"])
    page.get_by_role("button", name="Sign in", exact=True).click()
    numbers = page.locator(".log .no")
    expect(numbers).to_have_count(1_000)
    first = int(numbers.first.text_content() or "")
    page.get_by_role("link", name="Older lines").click()
    expect(numbers.first).to_have_text(str(max(1, first - 1_000)))
    page.get_by_role("link", name="Wrap").click()
    expect(page.locator(".log.unwrapped")).to_have_count(1)
    context.close()
