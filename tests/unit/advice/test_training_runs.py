"""How long a training takes on what holds it, and what it costs."""

from decimal import Decimal

import pytest

from portal.advice.training import training_run, training_ways
from portal.prices.price_table import HourPrice, PriceSource
from tests.unit.advice.test_device_fits import a_cluster, fits

PRICE = HourPrice(Decimal("2.5"), PriceSource.ADMIN)


def whole_gpu_fit(found):
    return next(each for each in found if each.device.profile is None)


def test_a_run_is_its_steps_and_costs_its_device_hours():
    question, found = fits(a_cluster(n1=8), task="finetuning", batch=16, tokens=10**9)
    fit = whole_gpu_fit(found)
    run = training_run(question, fit, PRICE)
    assert run.steps == -(-(10**9) // (16 * question.sequence))
    assert run.seconds == pytest.approx(run.steps * run.parts.seconds)
    assert run.device_hours == pytest.approx(fit.gpus * run.seconds / 3600)
    assert run.cost == pytest.approx(2.5 * run.device_hours)
    assert run.gpu_kwh == pytest.approx(0.7 * run.device_hours)
    assert run.system_kwh > run.gpu_kwh


def test_steps_are_taken_as_they_are():
    question, found = fits(a_cluster(n1=8), steps=1_000)
    assert training_run(question, whole_gpu_fit(found), PRICE).steps == 1_000


def test_without_an_end_there_is_a_step_and_no_cost():
    question, found = fits(a_cluster(n1=8))
    run = training_run(question, whole_gpu_fit(found), PRICE)
    assert run.parts.seconds > 0
    assert (run.steps, run.seconds, run.device_hours, run.cost) == (0, 0, 0, None)


def test_without_a_price_there_are_hours_and_no_cost():
    question, found = fits(a_cluster(n1=8), steps=10)
    run = training_run(question, whole_gpu_fit(found))
    assert run.device_hours > 0 and run.cost is None


def test_gpu_hours_of_a_slice_are_those_that_usage_counts():
    question, found = fits(a_cluster(n1=8), batch=1, sequence=2048, steps=10)
    fit = next(each for each in found if each.fits and each.device.profile)
    run = training_run(question, fit)
    share = fit.device.units / 56_000
    assert share < 1 and run.gpu_hours == pytest.approx(run.device_hours * share)


def test_a_slice_is_slower_than_its_gpu():
    question, found = fits(a_cluster(n1=8), batch=1, sequence=2048)
    times = [training_run(question, each).parts.seconds for each in found if each.fits]
    assert times == sorted(times, reverse=True)


def test_what_does_not_fit_and_what_is_served_have_no_run():
    question, found = fits(a_cluster(n1=1), model="llama3-70b", task="finetuning")
    assert {training_run(question, each) for each in found} == {None}
    question, found = fits(a_cluster(n1=8), task="inference")
    assert {training_run(question, each) for each in found} == {None}


def test_ways_are_the_fastest_divisions_and_more_of_the_same_device():
    question, found = fits(a_cluster(n1=8), task="finetuning", batch=16, steps=100)
    fit = whole_gpu_fit(found)
    ways = training_ways(question, fit, PRICE)
    same = [way for way in ways if way.fit.gpus == fit.gpus]
    larger = [way for way in ways if way.fit.gpus > fit.gpus]
    assert [way.parts.seconds for way in same] == sorted(way.parts.seconds for way in same)
    assert same[0].slower_part == "" and all(way.slower_part for way in same[1:])
    assert [way.fit.gpus for way in larger] == [4, 8]
    assert all(way.fit.fits and way.cost for way in larger)


def test_adapters_have_no_searched_ways():
    question, found = fits(a_cluster(n1=8), batch=8)
    assert [way.fit.gpus for way in training_ways(question, whole_gpu_fit(found))] == [2, 4, 8]
