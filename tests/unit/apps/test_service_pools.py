"""Which copy gets a call: the version first, by the canary's percentage, then the least busy."""

from uuid import uuid4

import pytest

from portal.apps.service_pools import ServicePool, choose_copy
from portal.job_services.selectors import ServiceRoute
from portal.tunnel.streams import Target

ROLLS = range(100)
NODE = uuid4()


def a_pool(*jobs: int, percent: int = 0) -> ServicePool:
    """With a copy for each of these jobs."""
    pool = ServicePool()
    pool.renew(ServiceRoute({job: Target(NODE, job, 0, 8000) for job in jobs}, 9, percent))
    return pool


def jobs_of(service: ServicePool, canary: ServicePool | None) -> list[int | None]:
    """The job for each roll."""
    copies = [choose_copy(service, canary, roll) for roll in ROLLS]
    return [copy.job if copy else None for copy in copies]


@pytest.mark.parametrize("percent", [0, 1, 10, 50, 99, 100])
def test_a_canary_gets_its_percentage_of_the_rolls(percent):
    found = jobs_of(a_pool(1, percent=percent), a_pool(2))
    assert found.count(2) == percent
    assert found.count(1) == 100 - percent


def test_a_canary_without_a_ready_copy_gets_nothing():
    service = a_pool(1, percent=50)
    assert jobs_of(service, a_pool()) == [1] * 100
    assert jobs_of(service, None) == [1] * 100, "before its copies were read"
    canary = a_pool(2)
    canary.avoid(2)
    assert jobs_of(service, canary) == [1] * 100, "while it cannot be reached"


def test_a_canary_is_no_spare_for_a_service_without_copies():
    assert jobs_of(a_pool(percent=10), a_pool(2)) == [2] * 10 + [None] * 90


def test_within_a_version_the_copy_with_the_fewest_calls_is_chosen():
    service, canary = a_pool(1, 2, percent=50), a_pool(3, 4)
    with service.call(1), canary.call(4):
        assert set(jobs_of(service, canary)) == {2, 3}


def test_calls_and_errors_are_counted_where_they_went():
    service, canary = a_pool(1, percent=100), a_pool(2)
    copy = choose_copy(service, canary, 0)
    assert copy is not None
    with copy.pool.call(copy.job):
        assert (service.open_calls.total(), canary.open_calls[2]) == (0, 1)
    copy.pool.note_error()
    now = copy.pool.errors[0]
    assert (service.counts(now).errors, canary.counts(now).errors) == (0, 1)
    assert canary.counts(now + 61).errors == 0
