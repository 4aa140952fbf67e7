"""What the planner keeps of stored requests, by the fields that it is made of."""

import pytest

from portal.planning.requests import SPEC_FIELDS, _spec, _spec_of_stored
from scheduler.core.request import parse_stored_request
from tests.support.every_field import EVERY_FIELD

OTHERS = {
    "project": "vision",
    "name": "other",
    "image": "jax:0.6",
    "command": ["sleep", "5"],
    "after": [],
    "device": {"gpus": 4},
}
STORED = EVERY_FIELD | {
    "project": "bio",
    "name": "train",
    "image": "pytorch:2.9",
    "command": ["python", "train.py"],
}


@pytest.mark.parametrize("field", sorted(STORED | OTHERS))
def test_a_request_that_differs_in_one_field_has_the_spec_of_its_own(field):
    changed = {name: value for name, value in STORED.items() if name != field}
    if field in OTHERS:
        changed[field] = OTHERS[field]
    first = _spec_of_stored(STORED)
    assert _spec_of_stored(changed) == _spec(parse_stored_request(changed))
    assert (_spec_of_stored(changed) is first) == (field not in SPEC_FIELDS)
