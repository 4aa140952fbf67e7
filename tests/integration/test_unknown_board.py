"""A board that no table has is offered in the profiles that its node told, and planned by them."""

import pytest

from agents.contract.boards import known_boards
from agents.contract.documents import ObservedProfile
from portal.errors import Refused
from portal.inventory.models import Gpu
from scheduler.core.model.states import JobStatus
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)

PROFILES = (
    ObservedProfile("1g.40gb", 19, 0, 1, 1, 40_000, 20, 7, (0, 1, 2, 3, 4, 5, 6)),
    ObservedProfile("3g.160gb", 9, 2, 3, 4, 160_000, 60, 2, (0, 4)),
    ObservedProfile("7g.320gb", 0, 4, 7, 8, 320_000, 140, 1, (0,)),
)


@pytest.fixture
def node():
    """A GPU of tomorrow, with profiles of tomorrow."""
    assert "NVIDIA R300" not in known_boards()
    node = a_node()
    node.unknown, node.profiles = "NVIDIA R300", PROFILES
    node.report()
    return node


def test_its_profiles_are_carved_where_they_may_stand(node):
    alice = a_user()
    project = a_project("vision", alice)
    jobs = [a_job(alice, project, device={"mig": "3g.160gb"}) for _ in range(3)]
    settle(node)
    for job in jobs:
        job.refresh_from_db()
    assert [job.status for job in jobs] == [JobStatus.RUNNING] * 2 + [JobStatus.QUEUED]
    assert sorted((s.profile, s.start, s.size) for s in node.slices) == [
        ("3g.160gb", 0, 4),
        ("3g.160gb", 4, 4),
    ]
    assert jobs[2].reason["code"] == "resources"


def test_a_profile_that_it_has_not_is_refused_with_those_it_has(node):
    alice = a_user()
    with pytest.raises(Refused, match=r"1g\.40gb, 3g\.160gb, 7g\.320gb"):
        a_job(alice, a_project("vision", alice), device={"mig": "2g.35gb"})


def test_the_pages_offer_and_draw_it(client, node):
    alice = a_user()
    a_project("vision", alice)
    client.force_login(alice)
    request = client.get("/request/").content.decode()
    assert "3g.160gb" in request and "2 to carve" in request
    a_job(alice, a_project("speech", alice), device={"mig": "1g.40gb"})
    settle(node)
    assert "1g.40gb" in client.get("/cluster/").content.decode()
    assert Gpu.objects.get().board == "NVIDIA R300"
