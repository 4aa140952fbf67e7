"""The advisor: one answer on the page, by REST and on the command line, and its request."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest
from django.test import Client

from portal.accounts.models import Role, TokenScope
from portal.quotas.models import Quota
from tests.support.cli_runner import Person
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)
ASKED = {"model": "llama2-7b", "task": "lora", "batch": 8}


@pytest.fixture
def olga(client: Client):
    olga = a_user("olga")
    client.force_login(olga)
    return olga


@pytest.fixture
def team(olga):
    return a_project("vision", olga)


def rest(client: Client, status: int = 200, **fields) -> dict:
    answer = client.post("/api/v1/advice", ASKED | fields, content_type="application/json")
    assert answer.status_code == status, answer.content
    return answer.json()


def page(client: Client, status: int = 200, **fields) -> str:
    asked = {name: text for name, text in (ASKED | fields).items() if text}
    answer = client.get("/advise/", asked)
    assert answer.status_code == status
    return unescape(answer.content.decode()).replace("\u00a0", " ")


def test_page_rest_and_command_line_have_one_answer(client, olga, team, tmp_path):
    a_node("n1", gpus=2)
    best = rest(client)["devices"][0]
    assert (best["usable"], best["kind"], best["start"]["at_once"]) == (True, "mig", True)
    assert sum(part["bytes"] for part in best["parts"]) == best["needed_bytes"]
    text = page(client)
    assert (
        f"The smallest that fits: a {best['profile'].split('.')[1][:-2]} GB slice of one H200"
        in text
    )
    assert f"It needs {best['needed_bytes'] / 2**30:.1f} GiB" in text
    assert "starts now" in text and "LoRA, arXiv 2106.09685" in text
    words = ["advise", "--model", "llama2-7b", "--task", "lora", "--batch", "8"]
    olgas = Person(olga, tmp_path, TokenScope.READ)
    assert olgas.output(*words).splitlines()[1].split()[:2] == ["H200", best["profile"]]
    asked = {"task": "inference", "recompute": "none", "quantisation": "awq"}
    options = [word for name, value in asked.items() for word in (f"--{name}", value)]
    answer = olgas.output("advise", "--model", "llama2-7b", *options, "--output", "json")
    assert asked.items() <= json.loads(answer).items()


def test_its_link_opens_the_request_form_filled_in_and_the_dry_run_agrees(client, olga, team):
    a_node("n1", gpus=2)
    found = re.search(r'class="btn primary" href="(/request/\?[^"]*)"', page(client))
    assert found
    text = client.get(found[1].replace("&amp;", "&")).content.decode()
    profile = rest(client)["devices"][0]["profile"]
    assert re.search(rf'name="amount" value="{re.escape(profile)}" checked', text)
    assert 'name="name" value="lora-llama2-7b"' in text
    assert "python train.py --model llama2-7b --method lora --batch-size 8" in text
    assert "Can start now" in text


def test_a_full_cluster_says_when_and_only_the_first_are_tried(client, olga, team):
    node = a_node("n1")
    a_job(olga, team, device={"gpus": 1})
    settle(node)
    devices = [each for each in rest(client)["devices"] if each["usable"]]
    tried = [each["start"] for each in devices if each["start"]]
    assert 0 < len(tried) <= 4 and tried == [each["start"] for each in devices][: len(tried)]
    assert not any(each["at_once"] for each in tried) and tried[0]["code"]


def test_what_the_project_may_not_have_is_told_with_the_reason(client, olga, team):
    a_node("n1", gpus=2)
    Quota.objects.update(limit_units=30_000, guard_units=30_000)
    devices = {each["profile"]: each for each in rest(client)["devices"]}
    assert devices["3g.71gb"]["usable"]
    whole = devices[""]
    assert (whole["fits"], whole["usable"], whole["request"], whole["form"]) == (
        True,
        False,
        {},
        "",
    )
    assert "vision" in whole["obstacle"]
    assert whole["obstacle"] in page(client)


def test_a_prompt_that_takes_minutes_is_told_in_plain_seconds(client, olga, team):
    a_node("n1")
    long = {"model": "llama3.2-1b", "sequence": 1_000_000, "concurrency": 1, "batch": ""}
    found = re.search(r"; (\S+) s to read a full prompt", page(client, task="inference", **long))
    assert found and int(found[1].replace(",", "")) > 100


def test_no_device_is_enough_and_the_nearest_is_named(client, olga, team):
    a_node("n1", gpus=2)
    text = page(client, model="llama3-405b", task="finetuning")
    assert "No device of this cluster holds it" in text and "The nearest is 2 × H200" in text
    assert "It would take 128 × H200." in text
    assert not any(each["usable"] for each in rest(client, model="llama3-405b")["devices"][:1])


def test_who_works_in_no_project_reads_the_memory_and_requests_nothing(client, olga):
    a_project("vision", olga, role=Role.VIEWER)
    a_node("n1")
    answer = rest(client)
    assert (answer["project"], answer["devices"][0]["fits"]) == ("", True)
    assert {each["form"] for each in answer["devices"]} == {""}
    assert {each["start"] for each in answer["devices"]} == {None}
    assert "/request/?" not in page(client)


def test_another_projects_limits_are_not_read(client, olga, team):
    a_node("n1")
    a_project("secret", a_user("eve"))
    assert rest(client, project="secret")["project"] == "vision"


def test_a_cluster_without_gpus_says_so(client, olga, team):
    assert rest(client)["devices"] == []
    assert "No GPU is known here" in page(client)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"model": "gpt-7"}, "model"),
        ({"batch": 0}, "batch"),
        ({"sequence": 10**30}, "sequence"),
        ({"task": "dreaming"}, "task"),
        ({"model": None, "config": {"architectures": ["FooForCausalLM"]}}, "config"),
        ({"model": "bert-base-uncased", "task": "inference"}, "task"),
    ],
)
def test_a_refusal_is_at_its_field(client, olga, team, fields, field):
    a_node("n1")
    body = {name: value for name, value in (ASKED | fields).items() if value is not None}
    answer = client.post("/api/v1/advice", body, content_type="application/json")
    assert answer.status_code == 400
    assert [each["field"] for each in answer.json()["errors"]] == [field]


def test_a_pasted_file_is_read_by_post_and_a_huge_one_refused(client, olga, team):
    a_node("n1")
    config = '{"architectures": ["FooForCausalLM"]}'
    answer = client.post("/advise/", {"config": config, "task": "lora"})
    assert answer.status_code == 400 and "FooForCausalLM" in answer.content.decode()
    answer = client.post("/advise/", {"config": "x" * 300_000, "task": "lora"})
    assert answer.status_code == 400 and "larger than 256 KB" in answer.content.decode()
    huge = {"task": "lora", "config": {"a": "x" * 10_000_000}}
    answer = client.post("/api/v1/advice", huge, content_type="application/json")
    assert answer.status_code == 413


def test_a_question_without_a_file_becomes_an_address(client, olga, team):
    answer = client.post("/advise/", ASKED)
    assert answer.status_code == 302
    assert answer["Location"] == "/advise/?model=llama2-7b&task=lora&batch=8"
    text = client.get("/advise/", headers={"Accept-Language": "zh-hans"}).content.decode()
    assert "一个模型需要多少 GPU" in text
