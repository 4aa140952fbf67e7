"""The advisor: one answer on the page, by REST and on the command line, and its request."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest
from django.test import Client

from portal.accounts.models import Membership, Role, TokenScope
from portal.jobs.models import Replica
from portal.quotas.models import Quota
from portal.web.advice.misconceptions import MISCONCEPTIONS
from tests.support.cli_runner import Person
from tests.support.file_rows import a_tree
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
    asked = {name: value for name, value in (ASKED | fields).items() if value is not None}
    answer = client.post("/api/v1/advice", asked, content_type="application/json")
    assert answer.status_code == status, answer.content
    return answer.json()


def refusals(client: Client, **fields) -> dict[str, str]:
    """The sentence of each field at fault."""
    return {each["field"]: each["message"] for each in rest(client, 400, **fields)["errors"]}


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


CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 8192,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}


@pytest.fixture
def replica(olga):
    """Of a job in a project that olga reads."""
    writer = a_user("writer")
    speech, node = a_project("speech", writer), a_node("n1")
    Membership.objects.create(user=olga, project=speech, role=Role.VIEWER)
    job = a_job(writer, speech)
    settle(node)
    return Replica.objects.get(attempt__job=job)


def test_a_config_of_a_job_is_read_with_the_rights_of_its_project(client, olga, team, replica):
    job = replica.attempt.job
    tree = a_tree(replica, {"model/config.json": json.dumps(CONFIG).encode(), "notes": b"x"})
    for place in (f"{job.label}:model/config.json", f"{tree.pk}:model/config.json"):
        answer = rest(client, model=None, config_file=place)
        assert answer["parameters"] == 8_030_261_248
        assert answer["reference"] == place
    text = page(client, model="", config_file=f"{tree.pk}:model/config.json")
    assert "8.03 billion parameters" in text
    client.force_login(a_user("eve"))
    for place in (f"{job.label}:model/config.json", f"{tree.pk}:model/config.json"):
        assert "config_file" in refusals(client, model=None, config_file=place)


def test_the_page_offers_the_configs_of_the_chosen_project(client, olga, replica):
    content = json.dumps(CONFIG).encode()
    tree = a_tree(replica, {"a/config.json": content, "config.json": content, "b-config.json": b""})
    text = client.get("/advise/", {"project": replica.attempt.job.project.slug}).content.decode()
    assert f'value="{tree.pk}:a/config.json"' not in text
    Membership.objects.filter(user=olga).update(role=Role.MEMBER)
    text = client.get("/advise/").content.decode()
    assert f'value="{tree.pk}:a/config.json"' in text and f'"{tree.pk}:config.json"' in text
    assert "b-config.json" not in text


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("large.json", "larger than 256 KB"),
        ("list.json", "not a JSON object"),
        ("foo.json", "FooForCausalLM"),
        ("none.json", "no file of that path"),
        ("", "JOB:PATH"),
        ("a\0b", "no file of that path"),
    ],
)
def test_a_file_that_is_no_config_is_refused_at_its_field(client, olga, replica, path, sentence):
    contents = {
        "large.json": b" " * 300_000,
        "list.json": b"[]",
        "foo.json": json.dumps(CONFIG | {"architectures": ["FooForCausalLM"]}).encode(),
    }
    a_tree(replica, contents)
    place = f"{replica.attempt.job.label}:{path}"
    if "\0" not in path:
        assert sentence in refusals(client, model=None, config_file=place)["config_file"]
    assert sentence in page(client, 400, model="", config_file=place)


def test_a_file_beside_a_model_and_tokens_beside_steps_are_refused(client, olga, replica):
    assert "steps" in refusals(client, tokens=5, steps=5)
    place = f"{replica.attempt.job.label}:config.json"
    a_tree(replica, {"config.json": json.dumps(CONFIG).encode()})
    assert "one of them" in refusals(client, config_file=place)["config_file"]


def test_time_of_a_training_and_its_ways_are_on_the_page(client, olga, team):
    a_node("n1", gpus=8)
    asked = {"model": "llama3-8b", "task": "finetuning", "batch": 16, "tokens": 10**9}
    answer = rest(client, **asked)
    best = answer["devices"][0]
    assert best["training"]["steps"] * 16 * answer["sequence"] >= 10**9
    assert {way["gpus"] for way in answer["ways"]} == {2, 4, 8}
    assert best["training"]["cost"] is None and best["hour_price"] is None
    text = page(client, **asked)
    assert "Time and cost" in text and "FSDP" in text and "Slower by:" in text
    assert "Admins have set no price" in text
    client.cookies["django_language"] = "zh-hans"
    assert "时间与费用" in page(client, **asked)


def test_the_page_of_misconceptions_has_all_of_them_in_both_languages(client, olga):
    text = unescape(client.get("/advise/misconceptions/").content.decode())
    entries = [each for _title, group in MISCONCEPTIONS for each in group]
    assert len(entries) == 18
    facts = [str(each.fact) for each in entries]
    assert all(fact in text for fact in facts)
    assert all(str(each.claim) in text and each.source in text for each in entries)
    client.cookies["django_language"] = "zh-hans"
    chinese = unescape(client.get("/advise/misconceptions/").content.decode())
    assert not any(fact in chinese for fact in facts) and "常见误解" in chinese
