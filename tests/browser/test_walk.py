"""The usability walk of docs/walk.md, each click counted: from a new account to a running job, from
a job that waits to an alternative that runs, from a failed job to a larger one, and from a script
to its model. With WALK_PICTURES=1 it draws its pictures."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.people import listen
from tests.services.stack import Stack, until

pytestmark = pytest.mark.browser
PICTURES = Path(__file__).resolve().parents[2] / "docs" / "walk"
SMALL = {"width": 960, "height": 640}
UNTIL_TOLD = ["sh", "-c", 'trap "exit 0" TERM; while true; do sleep 0.1; done']


@pytest.fixture(scope="module")
def stack(running_stack):
    return running_stack


@dataclass
class Walk:
    """Somebody with a mouse: nothing is opened by its address but the front door, and what is
    pressed is kept by its name."""

    page: Page
    name: str
    clicks: list[str] = field(default_factory=list)

    def click(self, role: str, name: str | re.Pattern[str]) -> None:
        target = self.page.get_by_role(role, name=name).first
        self.clicks.append(target_name(target))
        target.click()

    def picture(self, title: str) -> None:
        if os.environ.get("WALK_PICTURES"):
            PICTURES.mkdir(exist_ok=True)
            self.page.screenshot(path=PICTURES / f"{self.name}-{title}.png", animations="disabled")


def target_name(target: Locator) -> str:
    return target.get_attribute("aria-label") or target.inner_text()


@pytest.fixture
def walker(browser, stack):
    """A fresh browser at the front door, with name and password typed in."""
    complaints: list[str] = []
    contexts = []

    def begin(who: str, name: str) -> Walk:
        contexts.append(browser.new_context(viewport=SMALL))
        page = listen(contexts[-1].new_page(), complaints)
        page.goto(stack.url)
        page.get_by_label("User name").fill(who)
        page.get_by_label("Password", exact=True).fill(stack.seeded["password"])
        return Walk(page, name)

    yield begin
    for context in contexts:
        context.close()
    assert complaints == []


@contextmanager
def full(stack: Stack) -> Iterator[None]:
    """No GPU is whole any more: three are held, of the fourth a slice."""
    held = [
        stack.submit(UNTIL_TOLD, device={"gpus": 1}, replicas=3, topology="any"),
        stack.submit(UNTIL_TOLD, device={"mig": "1g.18gb"}),
    ]
    try:
        for job in held:
            stack.until_status(job, "running")
        yield
    finally:
        for job in held:
            stack.call("POST", f"/jobs/{job}/cancel")
        for job in held:
            stack.until_status(job, "cancelled")


def end(page: Page) -> None:
    """What was started is stopped, so that whoever comes next finds the cluster free."""
    page.get_by_role("link", name="Cancel job").click()
    page.get_by_role("button", name="Cancel job").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Cancelled")


@pytest.mark.slow
def test_a_new_account_has_a_running_job_after_at_most_four_clicks(walker):
    walk = walker("nora", "first-job")
    walk.click("button", re.compile("^Sign in$"))
    expect(walk.page.get_by_role("heading", name="You have no jobs yet")).to_be_visible()
    walk.picture("2-home")
    walk.click("link", re.compile("Fill in the request: A slice"))
    expect(walk.page.locator("[data-part=preview]")).to_contain_text("Can start now")
    walk.picture("3-request")
    walk.click("button", "Submit and start")
    title = walk.page.get_by_role("heading", level=1)
    expect(title).to_contain_text(re.compile("Running|Succeeded"))
    expect(walk.page.get_by_role("log")).to_contain_text("Hello from MIG-")
    walk.picture("4-job")
    assert len(walk.clicks) <= 4, walk.clicks
    expect(title).to_contain_text("Succeeded")


@pytest.mark.slow
def test_a_student_gets_a_slice_without_meeting_a_mig_name(walker, stack):
    """Memory and time, by buttons; the name of a profile stands in no text on the way."""
    walk = walker("sami", "student")
    page = walk.page
    walk.click("button", re.compile("^Sign in$"))
    expect(page.get_by_role("heading", name="You have no jobs yet")).to_be_visible()
    require_no_profile(page)
    walk.click("link", re.compile("New request|Request"))
    answer = page.locator("[data-part=preview]")
    expect(answer).to_contain_text("Can start now")
    walk.click("radio", re.compile("16.GB"))
    walk.click("button", re.compile("^2.h$"))
    expect(answer).to_contain_text("2\u00a0h")
    expect(answer.get_by_role("img")).to_have_accessible_name(re.compile("for this job"))
    require_no_profile(page)
    walk.picture("3-request")
    walk.click("button", "Submit and start")
    title = page.get_by_role("heading", level=1)
    expect(title).to_contain_text(re.compile("Running|Succeeded"))
    expect(page.get_by_role("log")).to_contain_text("Hello from MIG-")
    assert len(walk.clicks) <= 5, walk.clicks
    expect(title).to_contain_text("Succeeded")


def require_no_profile(page: Page) -> None:
    assert not re.search(r"\b\dg\.\d+gb", page.locator("main").inner_text())


@pytest.mark.slow
def test_a_job_that_waits_becomes_an_alternative_that_runs_in_two_clicks(walker, stack):
    walk = walker("alice", "alternative")
    page = walk.page
    with full(stack):
        waits = stack.submit(UNTIL_TOLD, name="waits", device={"gpus": 1})
        until(
            lambda: (stack.job(waits)["reason"] or {}).get("alternatives"), what="what would start"
        )
        page.get_by_role("button", name="Sign in", exact=True).click()
        sooner = "Start sooner waits"
        expect(page.get_by_role("link", name=sooner)).to_be_visible()
        walk.picture("1-home")
        walk.click("link", sooner)
        choices = page.locator("[data-part=reason] button[name=change]")
        expect(choices.first).to_be_visible()
        walk.picture("2-job")
        walk.click("button", choices.first.inner_text())
        title = page.get_by_role("heading", level=1)
        expect(title).to_contain_text("Running")
        expect(page.get_by_role("log")).to_contain_text("No output yet")
        walk.picture("3-runs")
        assert len(walk.clicks) <= 2, walk.clicks
        assert stack.job(waits)["status"] == "cancelled"
        end(page)


OUT_OF_MEMORY = "echo 'RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB' >&2; exit 1"


def test_a_failed_job_becomes_a_started_larger_one_in_two_clicks(walker, stack):
    """It fails as PyTorch does where the GPU has too little memory."""
    failed = stack.submit(["sh", "-c", OUT_OF_MEMORY], name="train", device={"mig": "1g.18gb"})
    stack.until_status(failed, "failed")
    until(lambda: stack.job(failed)["diagnosis"], what="the diagnosis")
    walk = walker("alice", "failure")
    page = walk.page
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("link", name="train").first.click()
    title = page.get_by_role("heading", level=2, name=re.compile("^CUDA ran out of memory"))
    expect(title).to_be_visible()
    expect(page.get_by_role("link", name="Line 1 of the log of rank 0")).to_be_visible()
    walk.picture("1-job")
    walk.click("link", re.compile("^Ask again with"))
    expect(page.locator("[data-part=preview]")).to_contain_text("Can start now")
    walk.picture("2-request")
    walk.click("button", "Submit and start")
    expect(page.locator("[data-part=head]")).to_contain_text("1g.35gb")
    # The same command fails again, so it may be over before the page shows that it runs.
    larger = page.url.rstrip("/").rpartition("/")[2]
    until(lambda: stack.job(larger)["started_at"], what="the larger job's start")
    walk.picture("3-job")
    assert len(walk.clicks) == 2, walk.clicks


TRAIN = """
import json, os, pathlib, time
with open(os.environ["TESSERA_METRICS_FILE"], "a") as metrics:
    for step in range(40):
        print(json.dumps({"step": step, "loss": 1 / (step + 1)}), file=metrics, flush=True)
        time.sleep(0.25)
pathlib.Path(os.environ["TESSERA_OUTPUT_DIR"], "model.bin").write_bytes(b"weights" * 1000)
"""


@pytest.mark.slow
def test_a_script_becomes_a_model_in_six_clicks(walker, tmp_path):
    """Nothing but the browser: the script is sent, its loss is followed, its model fetched."""
    (tmp_path / "train.py").write_text(TRAIN)
    walk = walker("alice", "script")
    page = walk.page
    walk.click("button", re.compile("^Sign in$"))
    walk.click("link", re.compile("New request|Request"))
    with page.expect_file_chooser() as chooser:
        walk.click("button", "Send files or an archive")
    chooser.value.set_files(tmp_path / "train.py")
    expect(page.locator("[data-part=code-attached]")).to_contain_text("1 file attached")
    page.get_by_label("Command", exact=True).fill("python3 train.py")
    expect(page.locator("[data-part=preview]")).to_contain_text("Can start now")
    page.get_by_label("Command", exact=True).scroll_into_view_if_needed()
    walk.picture("3-request")
    walk.click("button", "Submit and start")
    title = page.get_by_role("heading", level=1)
    expect(title).to_contain_text(re.compile("Running|Succeeded"))
    walk.click("link", "Metrics")
    expect(page.get_by_role("img", name=re.compile("^loss: .* at step [1-9]"))).to_be_visible()
    expect(title).to_contain_text("Running")
    walk.picture("5-metrics")
    expect(title).to_contain_text("Succeeded")
    expect(page.get_by_role("link", name="model.bin")).to_be_visible()
    walk.picture("6-output")
    with page.expect_download() as download:
        walk.click("link", "model.bin")
    assert download.value.path().read_bytes() == b"weights" * 1000
    assert len(walk.clicks) <= 6, walk.clicks
