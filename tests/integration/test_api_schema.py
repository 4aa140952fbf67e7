"""The OpenAPI document is valid, without warnings, and says how every operation refuses."""

from __future__ import annotations

from io import StringIO

import yaml
from django.core.management import call_command


def _schema() -> dict:
    out = StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=out)
    return yaml.safe_load(out.getvalue())


def test_the_schema_is_valid_and_complete():
    schema = _schema()
    operations = [op for path in schema["paths"].values() for op in path.values()]
    assert operations
    assert all("4XX" in op["responses"] for op in operations)
    ids = [op["operationId"] for op in operations]
    assert len(ids) == len(set(ids))
    assert {"bearer": []} in operations[0]["security"]
