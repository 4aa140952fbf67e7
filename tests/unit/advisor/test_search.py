"""The search for ways to train a model."""

import json

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
