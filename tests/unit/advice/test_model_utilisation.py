"""Model FLOPs utilisation: the formula, what is not known, and what cannot be true."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.contract.boards import known_boards
from portal.advice.figures import board_figures
from portal.advice.model_utilisation import ReportedSpeed, TrainingDevices, model_utilisation
from portal.advice.training_command import training_command
from scheduler.advisor.gpus import GPUS
from scheduler.advisor.models import SHAPES
from scheduler.advisor.transformer import resized
from scheduler.advisor.utilisation import token_flops, utilisation_percent
from tests.support.examples import examples

H100 = TrainingDevices("H100", 8, GPUS["H100-80GB"])
NAMED = ["python", "train.py", "--model", "llama3-8b", "--sequence-length", "4096"]


def found(speed: float, command=NAMED, devices=H100, **reported: float):
    spoken = ReportedSpeed(speed, **reported)
    return model_utilisation(spoken, training_command(command), devices)


@pytest.mark.parametrize(
    ("name", "gpus", "batch", "seconds", "percent"),
    # Korthikanti et al. (arXiv 2205.05198), table 5: no pipeline recompute counts as work.
    [
        ("GPT-22B", 8, 4, 1.10, 41.5),
        ("GPT-175B", 64, 64, 13.75, 51.4),
        ("GPT-530B", 280, 280, 37.83, 56.0),
    ],
)
def test_published_runs_have_the_published_utilisation(name, gpus, batch, seconds, percent):
    shape = SHAPES[name]
    tokens = batch * shape.sequence / seconds
    used = utilisation_percent(tokens, token_flops(shape), gpus * GPUS["A100-80GB"].peak_flops)
    assert used == pytest.approx(percent, abs=0.3)


def test_a_token_costs_six_flops_a_parameter_and_its_attention():
    shape = resized(SHAPES["llama3-8b"], 1)
    assert token_flops(shape) == pytest.approx(6 * shape.active_parameters, rel=1e-3)
    # Of three products with a frozen matrix, the gradient of its weights is left out.
    assert token_flops(shape, trains_adapters=True) == pytest.approx(
        4 * shape.active_parameters, rel=1e-3
    )


def test_measured_stands_beside_what_the_best_division_reaches():
    one = found(80_000, tokens_per_step=64 * 4096)
    assert one.percent == pytest.approx(80_000 * one.flops_each / one.peak_flops * 100)
    assert one.devices == "8 × H100"
    assert one.peak_flops == pytest.approx(8 * 989e12)
    assert one.expected is not None
    assert one.expected.batch == 64
    assert one.percent < one.expected.percent < one.reachable_percent == 80
    assert "ZeRO" in one.expected.division


def test_the_batch_may_come_from_the_command():
    one = found(80_000, [*NAMED, "--global-batch-size=64"])
    assert one.expected is not None
    assert one.expected.batch == 64


def test_a_model_of_its_own_says_what_a_token_costs():
    one = found(80_000, ["python", "own.py"], token_flops=5e10)
    assert one.percent == pytest.approx(80_000 * 5e10 / (8 * 989e12) * 100)
    assert one.flops_source is not None
    assert "model_flops_per_token" in one.flops_source.text
    assert one.expected is None
    assert one.no_expectation is not None


@pytest.mark.parametrize(
    ("command", "devices", "words"),
    [
        (["python", "train.py"], H100, "model_flops_per_token"),
        (["python", "train.py", "--model", "llama3-8b"], H100, "--sequence-length"),
        ([*NAMED[:3], "my-model", *NAMED[4:]], H100, "model_flops_per_token"),
        (NAMED, None, "several kinds, or shares"),
        (NAMED, TrainingDevices("X1", 2, None), "No source gives the peak of X1"),
    ],
)
def test_what_is_not_known_is_said_and_never_guessed(command, devices, words):
    one = found(80_000, command, devices)
    assert one.percent is None
    assert one.problem is not None
    assert words in one.problem.text


def test_more_than_gpus_can_compute_is_no_figure():
    one = found(10_000_000)
    assert one.percent is None
    assert one.problem is not None
    assert "more than its GPUs can compute" in one.problem.text


def test_adapters_cost_less_and_nothing_is_expected_of_them():
    lora, full = found(80_000, [*NAMED, "--method", "lora"]), found(80_000)
    assert lora.flops_each < full.flops_each
    assert lora.expected is None
    assert lora.no_expectation is not None
    assert "adapters" in lora.no_expectation.text


def test_a_slice_has_its_share_of_the_peak():
    board = known_boards()["H100-80GB"]
    figures = board_figures(board, board.profile("3g.40gb"))
    one = found(10_000, devices=TrainingDevices("H100 3g.40gb", 1, figures))
    assert one.peak_flops == pytest.approx(989e12 * 3 / 7)


def test_a_script_of_a_shell_is_read_too():
    script = "cd /code && python train.py --model=llama3-8b --sequence_length 4096"
    one = training_command(["sh", "-c", script])
    assert one is not None
    assert (one.model, one.shape.sequence, one.batch) == ("llama3-8b", 4096, 0)
    assert training_command(["sh", "-c", "echo 'unclosed --model llama3-8b"]) is None


numbers = st.one_of(
    st.floats(min_value=0, exclude_min=True, allow_nan=False, allow_infinity=False),
    st.sampled_from([1e-300, 1.0, 1e30, 1e300]),
)
sizes = st.sampled_from(["0", "1", "-1", "4096", "9" * 9, "9" * 40, "1e30", "nan", "", "٣", "x"])


@examples(60)
@given(speed=numbers, flops=numbers, step=numbers, sequence=sizes, batch=sizes)
def test_nonsense_is_answered_and_no_figure_is_over_the_whole(speed, flops, step, sequence, batch):
    command = [*NAMED[:4], "--seq-length", sequence, "--batch-size", batch]
    for token in (0.0, flops):
        one = found(speed, command, token_flops=token, tokens_per_step=step)
        assert (one.percent is None) == (one.problem is not None)
        assert (one.expected is None) == (one.no_expectation is not None)
        for percent in (one.percent, one.expected and one.expected.percent):
            assert percent is None or (math.isfinite(percent) and 0 <= percent <= 100)
