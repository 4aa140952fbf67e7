"""What a worker does before its first pass."""

from scheduler.warm import warm


def test_a_worker_finds_a_place_and_a_reason_before_anybody_asks():
    found = warm()
    assert [place.job for place in found.places] == ["1"]
    assert [hold.job for hold in found.holds] == ["2"]
