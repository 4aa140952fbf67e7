"""Owners take turns in the commit of a plan, within each priority band."""

from scheduler.commit.order import owners_in_turn
from scheduler.core.model.decisions import JobPlacement
from scheduler.core.model.snapshot import Priority
from tests.support.snapshots import a_job


def order_of(*jobs):
    placements = [JobPlacement(job.id, ()) for job in jobs]
    return [placement.job for placement in owners_in_turn(placements, jobs)]


def test_each_owner_has_one_job_before_any_has_a_second():
    burst = [a_job(str(n), user="alice") for n in (1, 2, 3)]
    assert order_of(*burst, a_job("4", user="bob"), a_job("5", user="cyd")) == list("14523")


def test_users_of_one_name_in_two_projects_are_two_owners():
    burst = [a_job(str(n), project="p") for n in (1, 2)]
    assert order_of(*burst, a_job("3", project="q")) == list("132")


def test_a_higher_band_comes_first_however_many_it_has():
    urgent = [a_job(str(n), user="alice", priority=Priority.HIGH) for n in (1, 2)]
    usual = [a_job("3", user="alice"), a_job("4", user="bob")]
    assert order_of(usual[0], *urgent, usual[1]) == list("1234")
