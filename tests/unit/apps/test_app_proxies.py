"""The proxies of `deploy/` leave apps the time and the paths that they have by docs/apps.md."""

import re
from pathlib import Path

import pytest

from portal.apps.application import CONNECT_SECONDS
from portal.apps.http_exchange import FIRST_BYTE_SECONDS
from portal.tunnel.relay import RELAY_PATH

DEPLOY = Path(__file__).parents[3] / "deploy"


@pytest.mark.parametrize(
    ("name", "waits", "hides"),
    [
        ("nginx.conf", r"proxy_(?:read|send)_timeout (\d+)s;", r"location = (/internal/\S+) \{"),
        ("entry.conf", r"proxy_(?:read|send)_timeout (\d+)s;", r"location = (/internal/\S+) \{"),
        ("Caddyfile", r"response_header_timeout (\d+)s", r"respond (/internal/\S+) 404"),
    ],
)
def test_a_proxy_waits_longer_than_the_portal_and_hides_its_relay_alone(name, waits, hides):
    text = (DEPLOY / name).read_text()
    times = [int(seconds) for seconds in re.findall(waits, text)]
    assert times
    assert min(times) > CONNECT_SECONDS + FIRST_BYTE_SECONDS
    assert re.findall(hides, text) == [RELAY_PATH]
