"""A request from a file and flags."""

import pytest

from portal.cli.request_builder import merge_flags


def test_flags_extend_the_file():
    base = {"command": ["true"], "retries": {"user": 1}, "env": None}
    merged = merge_flags(base, {"retries": {"infrastructure": 2}, "env": {"B": "2"}})
    assert merged["retries"] == {"user": 1, "infrastructure": 2}
    assert merged["env"] == {"B": "2"}


@pytest.mark.parametrize(
    ("field", "written", "flags"), [("retries", 3, {"user": 2}), ("env", ["A=1"], {"B": "2"})]
)
def test_what_a_flag_cannot_extend_is_left_for_rest_to_refuse(field, written, flags):
    assert merge_flags({field: written}, {field: flags})[field] == written
