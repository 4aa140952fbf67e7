"""A platform admin and a project admin with a browser: decide, limit, drain, read the trail."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.people import NARROW, people, seeded_stack

pytestmark = pytest.mark.browser
PAGES = (
    "/console/",
    "/approvals/",
    "/projects/",
    "/projects/vision/",
    "/projects/vision/quota",
    "/projects/vision/budget",
    "/console/limits/",
    "/console/nodes/",
    "/console/nodes/gpu-01/drain",
    "/console/nodes/gpu-01/preview",
    "/templates/",
    "/templates/new",
    "/console/images/",
    "/console/images/vision/",
    "/console/audit/",
)


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with seeded_stack(tmp_path_factory.mktemp("console"), "tests.services.seed_console") as stack:
        yield stack


@pytest.fixture
def signed_in(browser, stack):
    # A form that is sent back with what is wrong says so with its status.
    with people(browser, stack, "/approvals/", lambda said: "status of 400" in said) as open_as:
        yield open_as


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_of_the_console_keeps_anybody_out_or_scrolls_sideways(signed_in, stack, scheme):
    page = signed_in("root", color_scheme=scheme, viewport=NARROW, bypass_csp=True)
    for path in PAGES:
        page.goto(stack.url + path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= NARROW["width"], f"{path} is {width} wide"
        found = Axe().run(page).response["violations"]
        grave = [v["id"] for v in found if v["impact"] in ("serious", "critical")]
        assert grave == [], f"{path}: {grave}"


@pytest.mark.slow
def test_a_platform_admin_goes_from_what_needs_them_to_the_end_of_it(signed_in, stack):
    page = signed_in("root")
    page.goto(f"{stack.url}/console/")
    expect(page.get_by_role("heading", level=1)).to_have_text("1 item needs attention")
    page.get_by_role("link", name="2 jobs wait for approval").click()
    page.get_by_role("link", name="first-ask").click()
    expect(page.locator("svg.map rect.plan")).not_to_have_count(0)
    page.get_by_label("Reason").fill("for the deadline")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("status")).to_contain_text("Approved: J-2")
    page.get_by_label("J-3", exact=True).check()
    page.get_by_role("button", name="Refuse selected").click()
    expect(page.get_by_text("Give a reason: the job's owner will read it")).to_be_visible()
    expect(page.get_by_label("J-3", exact=True)).to_be_checked()
    page.get_by_label("Reason").fill("next week")
    page.get_by_role("button", name="Refuse selected").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Nothing waits for your approval")

    page.goto(f"{stack.url}/projects/vision/quota")
    page.get_by_label("Limit, in GPUs").fill("0.5")
    page.get_by_role("button", name="Preview the effect").click()
    expect(page.get_by_text("The new limit is exceeded by 0.50 GPUs")).to_be_visible()
    expect(page.get_by_role("link", name="J-1 long-run")).to_be_visible()
    page.get_by_role("button", name="Save the limit").click()
    expect(page.get_by_role("status")).to_contain_text("Limit saved")

    page.get_by_role("link", name="Nodes").click()
    page.get_by_role("link", name="Cordon or drain").click()
    page.get_by_label("Reason").fill("new fans")
    page.get_by_role("button", name="Cordon").click()
    page.get_by_label("J-1", exact=True).check()
    page.get_by_role("button", name="Stop ticked jobs").click()
    expect(page.get_by_role("status")).to_contain_text("Stopping: J-1")

    page.get_by_role("link", name="Audit").click()
    for action in ("job_approve", "job_refuse", "quota_set", "node_cordon", "node_drain"):
        expect(page.get_by_role("cell", name=action).first).to_be_visible()
    with page.expect_download() as got:
        page.get_by_role("link", name="CSV").click()
    text = got.value.path().read_text("utf-8")
    assert "next week" in text and "node_drain" in text


@pytest.mark.slow
def test_a_project_admin_has_the_pages_of_their_project_and_no_console(signed_in, stack):
    page = signed_in("ada")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Projects").click()
    page.get_by_role("link", name="vision").click()
    page.get_by_label("Role of alice").select_option("viewer")
    page.get_by_role("row").filter(has_text="alice").get_by_role("button", name="Set role").click()
    expect(page.get_by_role("status")).to_contain_text("alice is now viewer of vision")
    expect(page.get_by_role("link", name="Console")).to_have_count(0)
