"""`tessera volumes`, and volumes of a submit."""

from portal.cli.as_command import as_command
from tests.unit.cli.fake_rest import Rest

VOLUME = {
    "name": "imagenet",
    "description": "",
    "root": "datasets",
    "subpath": "images",
    "read_only": True,
    "projects": ["vision"],
    "quota_mib": 1_024,
    "quota_files": 0,
    "used_mib": 2_048,
    "used_files": 7,
    "is_partial": True,
    "is_over_quota": True,
    "nodes": [{"node": "n1"}, {"node": "n2"}],
}


def test_volumes_are_listed_with_their_nodes_and_sizes():
    rest = Rest().on("GET", "volumes", {"results": [VOLUME]})
    said = rest.run("volumes").stdout
    for words in ("imagenet", "read-only", "vision", "over 2GiB (full)", "1GiB", "n1, n2"):
        assert words in said


def test_where_there_are_none_it_says_who_makes_them():
    result = Rest().on("GET", "volumes", {"results": []}).run("volumes")
    assert "A platform admin makes them" in result.stderr + result.stdout


def test_a_request_with_volumes_is_shown_as_a_command():
    volumes = [
        {"volume": "imagenet", "path": "/data", "read_only": True},
        {"volume": "out", "path": "/my out", "read_only": False},
    ]
    line = as_command({"command": ["true"], "volumes": volumes})
    assert "--volume imagenet:/data:ro --volume 'out:/my out' --" in line
