"""Somebody with a browser on the request page: begin with a template, change it, save it, clone."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.people import NARROW, people, seeded_stack

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with seeded_stack(tmp_path_factory.mktemp("request"), "tests.services.seed_request") as stack:
        yield stack


@pytest.fixture
def signed_in(browser, stack):
    with people(browser, stack, "/request/", lambda said: "409 (Conflict)" in said) as open_as:
        yield open_as


def ready(page: Page, name: str):
    return page.get_by_role("group", name="Start from a template").get_by_role("link", name=name)


def test_a_template_is_picked_changed_and_requested(signed_in, stack):
    page = signed_in("alice")
    page.get_by_label("Project", exact=True).select_option("bio")
    ready(page, "Ollama").click()
    expect(page.get_by_role("status")).to_contain_text("Filled in from the template Ollama")
    expect(page.get_by_label("Name", exact=True)).to_have_value("ollama")
    expect(page.get_by_label("Project", exact=True)).to_have_value("bio")
    expect(page.locator("input[value='2g.35gb']")).to_be_checked()
    page.locator("input[value='gpus:A100']").check()
    expect(page.locator("[data-part=preview]")).to_contain_text("gpu-02, GPU 0")
    page.get_by_role("button", name="Submit and start").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("ollama")


def test_a_template_is_found_by_name_while_one_types(signed_in):
    page = signed_in("alice")
    expect(ready(page, "vLLM")).to_have_count(0)
    page.get_by_label("Replicas").fill("3")
    page.get_by_label("Find a template by name").fill("vll")
    expect(ready(page, "vLLM")).to_be_visible()
    expect(ready(page, "Ollama")).to_have_count(0)
    expect(page.get_by_label("Replicas")).to_have_value("3")


def test_a_form_is_saved_as_a_template_by_keyboard(signed_in):
    page = signed_in("alice")
    page.get_by_label("Name", exact=True).fill("nightly")
    page.get_by_text("Save as template").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Available to").select_option("vision")
    page.get_by_label("Template name").focus()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("Sweep")
    page.keyboard.press("Enter")
    name = page.get_by_label("Template name")
    expect(name).to_have_attribute("aria-invalid", "true")
    expect(name).to_have_value("Sweep")
    name.focus()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("Nightly")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Template saved:")).to_be_visible()
    expect(page.get_by_label("Name", exact=True)).to_have_value("nightly")
    page.get_by_role("link", name="Nightly").first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Nightly")
    page.get_by_role("button", name="Delete").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Template deleted")).to_be_visible()


def test_a_job_is_cloned_and_changed_by_keyboard(signed_in, stack):
    page = signed_in("alice")
    page.goto(f"{stack.url}/jobs/?name=train-vit")
    page.get_by_role("link", name="train-vit").click()
    page.get_by_role("link", name="Clone").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("A copy of")
    expect(page.locator("input[value='gpus:H200']")).to_be_checked()
    page.locator("input[value='gpus:H200']").focus()
    page.keyboard.press("ArrowUp")
    expect(page.locator("input[value='gpus:H200']")).not_to_be_checked()
    page.get_by_label("Name", exact=True).fill("train-vit-2")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("train-vit-2")


def test_a_job_is_saved_as_a_template(signed_in, stack):
    page = signed_in("alice")
    page.goto(f"{stack.url}/jobs/?name=train-vit")
    page.get_by_role("link", name="train-vit", exact=True).click()
    page.get_by_role("link", name="Save as template").click()
    expect(page.get_by_label("Template name")).to_have_value("train-vit")
    page.get_by_role("button", name="Save template").click()
    expect(page.get_by_text("Template saved:")).to_be_visible()


def test_without_javascript_a_template_is_found_picked_and_saved(signed_in):
    page = signed_in("alice", java_script_enabled=False)
    page.get_by_label("Find a template by name").fill("vllm")
    page.get_by_role("button", name="Find", exact=True).click()
    ready(page, "vLLM").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("vllm")
    page.get_by_text("Save as template").click()
    page.get_by_label("Template name").fill("Plain")
    page.get_by_role("button", name="Save template").click()
    expect(page.get_by_text("Template saved:")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_open_form_is_accessible_and_fits_a_phone(signed_in, stack, scheme):
    page = signed_in("alice", viewport=NARROW, color_scheme=scheme)
    page.goto(f"{stack.url}/request/?save=1&find=e")
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    found = Axe().run(page)
    serious = [
        one for one in found.response["violations"] if one["impact"] in ("serious", "critical")
    ]
    assert not serious, found.generate_report()
