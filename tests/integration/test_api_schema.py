"""The OpenAPI document is valid, without warnings, and says how every operation refuses."""

from __future__ import annotations

from io import StringIO

import yaml
from django.core.management import call_command

from portal.api.jobs.filters import JobListQuerySerializer
from portal.jobs.filters import JobFilters
from scheduler.core.request import RequestLimits, parse_request


def _schema() -> dict:
    out = StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=out)
    return yaml.safe_load(out.getvalue())


def test_the_schema_is_valid_and_complete():
    schema = _schema()
    operations = [op for path in schema["paths"].values() for op in path.values()]
    assert operations
    for operation in operations:
        refusals = {code: r for code, r in operation["responses"].items() if code[0] == "4"}
        assert {"401", "403", "429"} <= set(refusals)
        assert all(set(r["content"]) == {"application/problem+json"} for r in refusals.values())
    ids = [op["operationId"] for op in operations]
    assert len(ids) == len(set(ids))
    assert {"bearer": []} in operations[0]["security"]


def test_the_filters_in_the_schema_are_those_of_the_list():
    assert set(JobListQuerySerializer().fields) == set(JobFilters.base_filters)


def test_submit_has_examples_that_are_requests():
    (post,) = [o["post"] for path, o in _schema()["paths"].items() if path == "/api/v1/jobs"]
    examples = post["requestBody"]["content"]["application/json"]["examples"]
    assert len(examples) >= 2
    for example in examples.values():
        assert parse_request(example["value"], RequestLimits()).project == "vision"
