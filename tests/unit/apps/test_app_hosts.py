"""Hosts of apps, and which calls are theirs."""

import pytest

from portal.apps.hosts import AppName, app_host, is_for_apps, named_app, shared_site

DOMAIN = "apps-example.net"


def test_the_host_that_is_made_is_the_one_that_is_read():
    name = AppName(12, "tensor-board")
    assert app_host(name, DOMAIN) == "tensor-board--j12.apps-example.net"
    assert named_app(app_host(name, DOMAIN, "8443"), DOMAIN) == name
    assert named_app("Tensor-Board--J12.Apps-Example.NET.", DOMAIN) == name


@pytest.mark.parametrize(
    "label",
    ["web", "web--j0", "web--j01", "web-j1", "--j1", "we--b--j1", "a.web--j1", "-a--j1", ""],
)
def test_another_host_below_the_domain_names_no_app(label):
    assert named_app(f"{label}.{DOMAIN}", DOMAIN) is None


@pytest.mark.parametrize(
    ("hosts", "is_theirs"),
    [
        ([b"web--j1.apps-example.net:8000"], True),
        ([b"anything.apps-example.net"], True),
        ([b"apps-example.net"], False),
        ([b"gpu.example.org"], False),
        ([b"web--j1.apps-example.net.evil.example"], False),
        ([b"evilapps-example.net"], False),
        ([], False),
        # Two readers could choose differently.
        ([b"gpu.example.org", b"web--j1.apps-example.net"], True),
    ],
)
def test_a_call_is_the_apps_if_its_host_is_below_their_domain(hosts, is_theirs):
    headers = [(b"host", host) for host in hosts]
    assert is_for_apps(headers, DOMAIN) is is_theirs
    assert not is_for_apps(headers, "")


@pytest.mark.parametrize(
    ("domain", "host", "found"),
    [
        ("apps.example.org", "gpu.example.org", "gpu.example.org"),
        ("example.org", "gpu.example.org", "gpu.example.org"),
        ("apps-example.net", "gpu.example.org", ""),
        ("localhost", "localhost", ""),
        ("localhost", "127.0.0.1", ""),
    ],
)
def test_a_domain_that_shares_cookies_with_the_portal_is_found(domain, host, found):
    assert shared_site(domain, [host]) == found
