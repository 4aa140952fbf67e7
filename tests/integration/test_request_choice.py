"""The request page as a choice: few cards, input that is understood, errors that offer the mend."""

import re
from html import unescape

import pytest
from django.test import override_settings

from portal.catalogue.models import ImagePolicy, ImageRule
from portal.demo.scale import ClusterSize
from portal.inventory.models import Gpu, Node
from portal.jobs.models import Job
from portal.platform import Platform
from tests.support.request_form import a_form
from tests.support.rows import a_job, a_node, a_project, a_user, settle
from tests.support.scale_rows import client_of, seeded

pytestmark = pytest.mark.django_db(transaction=True)
SIX_BOARDS = ("A100-40GB", "A100-80GB", "H100-80GB", "H200-141GB", "B200-180GB", "L40S-48GB")


@pytest.fixture
def olga(client):
    olga = a_user("olga")
    client.force_login(olga)
    return olga


@pytest.fixture
def team(olga):
    return a_project("vision", olga)


def page(client, **query) -> str:
    return unescape(client.get("/request/", query).content.decode())


def preview(client, **fields) -> str:
    return unescape(client.post("/request/preview", a_form(**fields)).content.decode())


def reading(text: str, field: str) -> str:
    found = re.search(rf'data-part="reading-{field}"[^>]*>(.*?)</p>', text, re.DOTALL)
    return found[1].strip() if found else ""


def fills(text: str) -> list[str]:
    """What the buttons that offer a mend would fill in."""
    return re.findall(r'name="fill" value="([^"]*)">', text)


def test_six_models_make_at_most_eight_cards_and_one_is_recommended(client, team):
    for board in SIX_BOARDS:
        a_node(f"n-{board.lower()}", board=board)
    text = page(client)
    cards = re.findall(
        r'<label class="choice"><input type="radio" name="amount" value="([^"]*)"', text
    )
    assert 6 <= len(cards) <= 8 and cards[-2:] == ["memory", "gpus"]
    assert text.count("Recommended:") == 1
    shown = re.sub(r"<details.*?</details>", "", text, flags=re.DOTALL)
    assert not re.search(r"\dg\.\d+gb", shown), "no MIG name before the second step"
    rows = re.findall(r'class="pick"><input type="radio" name="amount" value="([^"]*)"', text)
    assert {"1g.5gb", "3g.71gb", "4g.71gb", "gpus:A100-40GB", "gpus:L40S"} <= set(rows)
    assert not set(rows) & set(cards)


def test_the_boards_of_retired_nodes_make_no_cards_and_no_starts(client, team):
    """The preview answers for the cards that the page has."""
    a_node("n1")
    a_node("n2", board="A100-40GB")
    Node.objects.filter(name="n2").update(status="retired")
    cards = re.findall(
        r'class="choice"><input type="radio" name="amount" value="([^"]*)"', page(client)
    )
    starts = re.findall(r'data-part="start-([^"]*)"', preview(client))
    assert cards and starts == cards


def test_the_seeded_fleet_of_all_boards_has_at_most_eight_cards():
    seeded(ClusterSize(jobs=30, nodes=60, users=6, projects=2))
    assert Gpu.objects.values("board").distinct().count() == 6
    text = client_of("alice").get("/request/").content.decode()
    assert len(re.findall(r'<label class="choice"><input type="radio" name="amount"', text)) <= 8


@pytest.mark.parametrize(
    ("typed", "seconds", "said"),
    [
        ("90", 5_400, "Read as 90 minutes."),
        (" 2 hours ", 7_200, ""),
        ("1:30", 5_400, ""),
        ("两小时", 7_200, ""),
    ],
)
def test_a_time_limit_is_understood_and_what_is_open_is_said(client, team, typed, seconds, said):
    a_node("n1")
    assert reading(preview(client, time_limit=typed), "time_limit") == said
    assert client.post("/request/", a_form(time_limit=typed)).status_code == 302
    assert Job.objects.get().time_limit_seconds == seconds


def test_a_time_of_day_is_an_end_in_the_readers_zone(client, team):
    a_node("n1")
    said = reading(preview(client, time_limit="tomorrow 9:00"), "time_limit")
    assert re.fullmatch(r"Read as until .*09:00.* from now\.", re.sub("<[^>]+>", "", said))


def test_pasted_blanks_and_bare_numbers_are_fine(client, team):
    a_node("n1")
    form = a_form(
        image=" busybox:1 ", memory="16", amount="memory", device_memory=" 16gb ", cpu="2 CPUs"
    )
    assert client.post("/request/", form).status_code == 302
    job = Job.objects.get()
    assert job.request["image"] == "busybox:1"
    assert (job.request["memory"], job.request["cpu"]) == ("16GiB", 2)
    assert job.request["device"] == {"memory": "16GiB"}


@pytest.mark.parametrize(
    ("field", "typed", "meant"),
    [
        ("time_limit", "2 hourz", "2h"),
        ("time_limit", "300 days", "7d"),
        ("memory", "16 gigs", "16 GB"),
        ("replicas", "two", "2"),
        ("name", "nine lives", "nine-lives"),
    ],
)
def test_an_error_offers_the_mended_value_and_has_the_focus(client, team, field, typed, meant):
    a_node("n1")
    form = a_form(**{field: typed})
    refused = client.post("/request/", form)
    text = unescape(refused.content.decode())
    assert refused.status_code == 400 and f"Did you mean {meant}?" in text
    (shown,) = re.findall(rf'<input[^>]* name="{field}"[^>]*>', text)
    main = text[text.index("<main") : text.index("</main>")]
    assert " autofocus" in shown and main.count(" autofocus") == 1
    assert f"{field}={meant}" in fills(text)
    mended = client.post("/request/", form | {"fill": f"{field}={meant}"})
    assert mended.status_code == 200 and not Job.objects.exists()
    assert mended.context["values"] == refused.context["values"] | {field: meant}
    assert client.post("/request/", mended.context["values"]).status_code == 302


def test_an_empty_command_has_a_sentence_that_fits_the_field(client, team):
    a_node("n1")
    text = unescape(client.post("/request/", a_form(command=" ")).content.decode())
    assert "write a command, such as python train.py" in text


def test_usual_times_are_buttons_up_to_the_policys_maximum(client, team):
    a_node("n1")
    with override_settings(PLATFORM=Platform(max_time_limit_seconds=6 * 3_600)):
        text = page(client)
    offered = re.findall(r'value="time_limit=([^"]*)" aria-pressed="(true|false)">', text)
    assert [value for value, _ in offered] == ["30m", "2h", "4h", "6h"]
    assert [value for value, pressed in offered if pressed == "true"] == ["4h"]


def test_the_place_is_drawn_with_what_others_hold_and_told_in_words(client, olga, team):
    node = a_node("n1")
    a_job(olga, team, device={"mig": "3g.71gb"})
    settle(node)
    text = preview(client, amount="memory:16GiB")
    (words,) = re.findall(r'<svg class="map place snug"[^>]* aria-label="([^"]*)"', text)
    assert words == "n1, GPU 0: 18\u00a0GB for this job, 4/8 of it in use by other jobs"
    drawing = text[text.index('<svg class="map place snug"') :].partition("</svg>")[0]
    assert drawing.count('class="mine own"') == 1 and drawing.count('class="other late"') == 1
    assert "n1, GPU 0, a slice with 18\u00a0GB" in text


def test_a_gang_of_many_gpus_is_drawn_in_part_and_the_rest_counted(client, olga):
    a_project("bio", olga, gpus=16)
    a_node("n1", gpus=16)
    text = preview(client, project="bio", amount="gpus", replicas="16", topology="any")
    assert text.count(">whole GPU</text>") == 8 and "and 8 more GPUs" in text


def test_the_same_request_is_shown_three_ways_each_to_copy(client, team):
    a_node("n1")
    text = preview(client)
    assert re.findall(r'name="same-request" id="(\S+)"', text) == [
        "same-yaml",
        "same-rest",
        "same-command",
    ]
    assert {"#yaml", "#curl", "#command-line"} <= set(re.findall(r'data-copy="([^"]*)"', text))


def test_allowed_images_stand_in_words_and_earlier_ones_are_suggested(client, olga, team):
    a_node("n1")
    assert "Any image that the nodes can pull." in page(client)
    a_job(olga, team, image="ghcr.io/lab/train:3")
    a_job(olga, team, image="busybox:1")
    patterns = ["ghcr.io/lab/*", "python:*", "tessera-example:latest"]
    ImagePolicy.objects.create(project=team, rule=ImageRule.LISTED, patterns=patterns)
    text = page(client)
    said = (
        "vision may use every image of ghcr.io/lab, python with any tag or tessera-example:latest."
    )
    assert said in text
    listed = text[text.index('<datalist id="known-images">') :].partition("</datalist>")[0]
    assert re.findall(r'value="([^"]*)"', listed) == [
        "tessera-example:latest",
        "ghcr.io/lab/train:3",
    ]


def test_the_allowed_images_follow_the_project_that_is_chosen(client, olga, team):
    a_node("n1")
    speech = a_project("speech", olga)
    ImagePolicy.objects.create(project=speech, rule=ImageRule.LISTED, patterns=["python:3"])
    assert "Any image that the nodes can pull." in preview(client)
    text = preview(client, project="speech")
    assert "speech may use python:3." in text and '<option value="python:3">' in text


def test_a_gang_that_lacks_cpus_is_told_so_in_words(client, team):
    a_node("n1", gpus=8)
    text = preview(client, amount="gpus", replicas="8", topology="any", cpu="20")
    assert "needs 8 replicas with 20 CPUs each; the whole cluster has CPUs for 3" in text
    assert "milli" not in text
