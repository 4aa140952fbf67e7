"""When each card of the request page could start, beside how many are free."""

import re

import pytest
from django.test import Client
from django.utils import translation

from portal.inventory.models import Node
from portal.jobs.models import Job
from portal.web.request.stream import live_cards
from tests.support.request_form import a_form
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)
# Of an H200.
MEMORY = ("memory:16GiB", "memory:32GiB", "memory:64GiB", "memory:128GiB")


@pytest.fixture
def olga(client: Client):
    olga = a_user("olga")
    client.force_login(olga)
    return olga


@pytest.fixture
def team(olga):
    return a_project("vision", olga)


def card_texts(text: str, kind: str) -> dict[str, str]:
    """What the parts of this kind say, by amount."""
    parts = re.findall(rf'<span[^>]*data-part="{kind}-([^"]*)">(.*?)</span>', text, re.DOTALL)
    return {amount: re.sub(r"<[^>]*>", "", said).strip() for amount, said in parts}


def page(client: Client) -> str:
    return client.get("/request/").content.decode()


def checked(client: Client, **fields) -> str:
    return client.post("/request/preview", a_form(**fields)).content.decode()


def test_an_idle_cluster_starts_every_card_now(client, team):
    a_node("n1", gpus=2)
    text = page(client)
    starts = card_texts(text, "start")
    assert set(starts.values()) == {"starts now"}
    assert starts.keys() == {*MEMORY, "memory", "gpus"}
    stock = card_texts(text, "stock")
    assert stock["1g.18gb"] == "14 of 14 free: 14 to carve"
    assert (stock["memory:16GiB"], stock["memory:128GiB"], stock["gpus"]) == (
        "14 free",
        "2 free",
        "2 free",
    )


def test_a_full_cluster_offers_every_card_and_hides_no_unknown(client, olga, team):
    node = a_node("n1")
    a_job(olga, team, device={"gpus": 1})
    settle(node)
    text = page(client)
    assert set(card_texts(text, "start").values()) == {"no estimate yet: insufficient resources"}
    assert card_texts(text, "stock")["1g.18gb"] == "none of 7 free"
    assert card_texts(text, "stock")["memory:16GiB"] == "", "when one could start is said beside it"
    assert "disabled" not in text


def test_a_quota_is_why_a_free_card_waits(client, olga):
    bio = a_project("bio", olga, gpus=1)
    node = a_node("n1", gpus=2)
    a_job(olga, bio, device={"gpus": 1})
    settle(node)
    text = page(client)
    assert card_texts(text, "stock")["gpus"] == "1 free"
    assert card_texts(text, "start")["gpus"] == "no estimate yet: project quota"


def test_the_cards_follow_what_is_typed(client, team):
    a_node("n1", gpus=2)
    assert card_texts(checked(client), "start")["gpus"] == "starts now"
    assert (
        card_texts(checked(client, replicas="3"), "start")["gpus"] == "Cannot run on this cluster"
    )
    assert card_texts(checked(client, replicas="3"), "start")["memory:16GiB"] == "starts now"
    assert card_texts(checked(client, replicas="none"), "start")["gpus"] == "no estimate yet"


def test_a_node_that_takes_no_work_is_told_and_not_counted(client, team):
    a_node("n1", gpus=2)
    Node.objects.update(schedulable=False)
    text = page(client)
    assert card_texts(text, "stock")["gpus"] == "none in service"
    assert "2 GPUs are not counted: they are out of service" in text


def test_a_profile_that_cannot_be_made_here_is_not_offered(client, team):
    a_node("n1", board="L40S-48GB")
    text = page(client)
    assert card_texts(text, "stock").keys() == {"memory:40GiB", "gpus", "mps", "memory"}
    assert "such as one L40S" in text and "one or more L40S" in text


def test_the_stream_counts_again_in_the_readers_language(olga, team):
    node = a_node("n1")
    assert card_texts(live_cards(olga).html, "stock")["gpus"] == "1 free"
    a_job(olga, team, device={"gpus": 1})
    settle(node)
    stock = card_texts(live_cards(olga).html, "stock")
    assert (stock["gpus"], stock["3g.71gb"]) == ("", "none of 2 free")
    with translation.override("zh-hans"):
        in_chinese = live_cards(olga).html
    assert card_texts(in_chinese, "stock")["3g.71gb"] == "共 2，无空闲"


def test_a_large_cluster_is_shown_before_the_planner_looked_at_each_card(client, team, monkeypatch):
    monkeypatch.setattr("portal.web.request.cards.LARGE_CLUSTER_GPUS", 2)
    a_node("n1", gpus=2)
    text = page(client)
    assert set(card_texts(text, "start").values()) == {"select to see when"}
    assert "data-deferred" in text and "The planner is checking the request" in text
    assert card_texts(checked(client), "start")["gpus"] == "starts now"


def test_the_answer_and_the_cards_can_be_asked_for_apart(client, team):
    a_node("n1")
    answer, cards = (
        client.post(f"/request/preview?of={of}", a_form()).content.decode()
        for of in ("preview", "cards")
    )
    assert "Can start now" in answer and not card_texts(answer, "start")
    assert card_texts(cards, "start")["gpus"] == "starts now" and "Can start now" not in cards


def test_without_scripts_a_button_asks_the_planner_and_submits_nothing(client, team, monkeypatch):
    monkeypatch.setattr("portal.web.request.cards.LARGE_CLUSTER_GPUS", 2)
    a_node("n1", gpus=2)
    answer = client.post("/request/", a_form(preview="1"))
    assert answer.status_code == 200
    assert "Can start now" in answer.content.decode()
    assert not Job.objects.exists()


def test_idle_slices_in_the_way_never_hide_what_starts_now(client, olga, team):
    """A card says "starts now" and "none free" at no time: what can be made anew counts as free."""
    node = a_node("n1", gpus=1)
    a_job(olga, team, device={"mig": "1g.18gb"})
    settle(node)
    node.finish()
    settle(node)
    text = page(client)
    assert card_texts(text, "start")["memory:64GiB"] == "starts now"
    assert card_texts(text, "stock")["memory:64GiB"] == "2 free"
    assert "none" not in card_texts(text, "stock")["3g.71gb"]


def test_the_first_question_is_memory_and_one_answer_is_recommended(client, team):
    a_node("n1")
    text = page(client)
    assert 'value="memory:16GiB" checked' in text
    assert text.count("Recommended:") == 1
    form = a_form(amount="memory:16GiB", cpu="", memory="")
    assert client.post("/request/", form).status_code == 302
    job = Job.objects.get()
    assert job.request["device"] == {"memory": "16GiB"}
    assert 'value="memory:16GiB" checked' in client.get("/request/").content.decode()


def test_cards_of_one_memory_are_told_apart_by_their_compute(client, team):
    a_node("n1")
    text = re.sub("<[^>]+>", " ", page(client))
    assert "3/7 of the compute, 1/2 of the memory" in text
    assert "4/7 of the compute, 1/2 of the memory" in text
    assert "1/7 of the compute, 1/4 of the memory" in text
