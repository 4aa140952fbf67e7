"""From a model to a filled request with the mouse: five clicks."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.people import people, seeded_stack

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with seeded_stack(tmp_path_factory.mktemp("advise"), "tests.services.seed_request") as stack:
        yield stack


def test_seven_billion_parameters_with_lora_become_a_request_that_says_when(browser, stack):
    with people(browser, stack, "/request/", lambda said: False) as signed_in:
        page = signed_in("alice")
        page.get_by_role("link", name="advisor", exact=True).click()
        page.get_by_label("Model of the catalogue").select_option("llama2-7b")
        page.get_by_label("LoRA", exact=True).check()
        page.get_by_label("Batch: sequences of a training step").fill("8")
        page.get_by_role("button", name="Show what fits").click()
        expect(page.get_by_role("heading", level=2).first).to_contain_text("The smallest that fits")
        found = [v for v in Axe().run(page).response["violations"] if v["impact"] in SERIOUS]
        assert found == []
        page.get_by_role("link", name="Fill in the request", exact=True).click()
        expect(page.get_by_label("Name", exact=True)).to_have_value("lora-llama2-7b")
        expect(page.get_by_label("Command", exact=True)).to_have_value(COMMAND)
        expect(page.locator("[data-part=preview]")).to_contain_text("Can start now")


SERIOUS = ("serious", "critical")
COMMAND = (
    "python train.py --model llama2-7b --method lora --batch-size 8 --sequence-length 4096 "
    "--gradient-checkpointing"
)
