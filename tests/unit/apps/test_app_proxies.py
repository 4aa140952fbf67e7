"""The proxies of `deploy/` leave apps the time and the paths that they have by docs/apps.md."""

import re
from pathlib import Path

import pytest

from agents.contract.calls import ENROL_PATH
from agents.contract.tunnel import TUNNEL_PATH
from portal.apps.application import CONNECT_SECONDS
from portal.apps.http_exchange import FIRST_BYTE_SECONDS
from portal.tunnel.relay import RELAY_PATH

DEPLOY = Path(__file__).parents[3] / "deploy"


def test_agents_call_processes_of_their_own_and_tunnels_end_where_people_are_answered():
    text = (DEPLOY / "entry.conf").read_text()
    names = dict(re.findall(r"set \$(\w+) ([a-z-]+);", text))
    places = re.findall(r"location (= )?(\S+) \{\s+proxy_pass http://\$(\w+):8000;", text)
    assert {(bool(exact), path): names[name] for exact, path, name in places} == {
        (True, TUNNEL_PATH): "web",
        (False, "/agent/"): "agent-web",
        (False, "/"): "web",
    }
    assert ENROL_PATH.startswith("/agent/")


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
