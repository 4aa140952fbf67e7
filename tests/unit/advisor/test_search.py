"""The search for ways to train a model."""

import json
from time import process_time

import pytest

from scheduler.advisor.__main__ import main
from scheduler.advisor.gpus import GPUS
from scheduler.advisor.models import SHAPES
from scheduler.advisor.search import search

H100 = GPUS["H100-80GB"]


def sizes(candidate):
    p = candidate.parallelism
    return p.tensor_parallel, p.pipeline_parallel, p.context_parallel


@pytest.mark.parametrize(
    ("model", "gpus", "published"),
    # Megatron-LM's guide to parallelism.
    [("llama3-70b", 64, (4, 4, 2)), ("llama3-405b", 1024, (8, 8, 2))],
)
def test_published_divisions_are_among_those_that_fit(model, gpus, published):
    assert published in {sizes(one) for one in search(SHAPES[model], H100, gpus, 1024)}


def test_the_fastest_comes_first_and_all_fit():
    found = search(SHAPES["llama3-70b"], H100, 64, 1024)
    seconds = [one.parts.seconds for one in found]
    assert seconds == sorted(seconds)
    assert max(one.memory_bytes for one in found) <= H100.memory_bytes


def test_what_fits_few_gpus_at_a_time_fits_more_of_them_no_slower():
    best = [search(SHAPES["llama3-8b"], H100, gpus, 1024)[0] for gpus in (8, 16, 32, 64)]
    seconds = [one.parts.seconds for one in best]
    assert seconds == sorted(seconds, reverse=True)


def test_a_model_that_fits_in_no_way_has_no_division():
    assert search(SHAPES["llama3-405b"], H100, 8, 1024) == []


def test_the_command_prints_the_best_and_why_others_are_slower(capsys):
    assert main(["search", "--model", "llama3-405b", "--gpus", "1024", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["best"]) == 5
    assert found["best"][0]["slower_part"] == ""
    slower = [row for row in found["best"] if row["step_s"] > found["best"][0]["step_s"]]
    assert all(row["slower_part"] for row in slower)


@pytest.mark.parametrize(("model", "gpus"), [("x", "8"), ("llama3-8b", "0"), ("llama3-8b", "1e9")])
def test_bad_input_is_refused_in_one_sentence(capsys, model, gpus):
    with pytest.raises(SystemExit):
        main(["search", "--model", model, "--gpus", gpus])
    assert "error:" in capsys.readouterr().err


def test_small_models_are_sharded_and_large_ones_divided():
    best = search(SHAPES["llama3-8b"], H100, 64, 1024)[0].parallelism
    assert best.pipeline_parallel == best.tensor_parallel == 1
    stages = {one.parallelism.zero_stage for one in search(SHAPES["llama3-8b"], H100, 64, 1024)}
    assert stages == {1, 2, 3}
    pipelines = search(SHAPES["llama3-405b"], H100, 1024, 1024)
    assert {
        one.parallelism.zero_stage for one in pipelines if one.parallelism.pipeline_parallel > 1
    } == {1}


def test_experts_are_divided_where_they_do_not_fit_otherwise():
    found = search(SHAPES["mixtral-8x7b"], H100, 64, 1024)
    by_experts = {one.parallelism.expert_parallel: one.memory_bytes for one in reversed(found)}
    assert set(by_experts) >= {1, 2, 4, 8}


def test_gpus_that_do_not_divide_are_left_idle():
    prime = search(SHAPES["llama3-8b"], H100, 61, 1024)
    assert prime[0].parallelism.gpus <= 61
    assert prime[0].parts.seconds >= search(SHAPES["llama3-8b"], H100, 64, 1024)[0].parts.seconds


def test_both_bubbles_are_named():
    best = search(SHAPES["llama3-405b"], H100, 1024, 1024)[0]
    row = best.as_json(SHAPES["llama3-405b"], H100, best.parts)
    p, m = best.parallelism.pipeline_parallel, best.parallelism.micro_batches
    assert row["bubble_over_ideal"] == round((p - 1) / m, 4)
    assert row["bubble_over_total"] == round((p - 1) / (m + p - 1), 4)


def test_a_search_takes_less_than_a_second_for_the_largest_question():
    started = process_time()
    search(SHAPES["deepseek-v2"], GPUS["H200-141GB"], 65_536, 720_720)
    search(SHAPES["llama3-405b"], H100, 1024, 1024)
    assert process_time() - started < 2


def test_a_large_mixture_of_experts_takes_about_what_was_published():
    # DeepSeek-V3 (arXiv 2412.19437), table 1 and section 4.2: 14.8 T tokens in 2.664 M hours of
    # H800s, 2,048 of them, batches of 15,360 sequences of 4,096: 19.9 s in 8 bits, here in 16.
    shape = SHAPES["deepseek-v3"]
    best = search(shape, GPUS["H800-80GB"], 2048, 15_360)[0]
    assert 1 < best.parts.seconds / 19.9 < 2
