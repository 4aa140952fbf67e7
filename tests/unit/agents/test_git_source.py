"""Which texts name a repository, and which hosts and addresses no node may be sent to."""

import ipaddress

import pytest

from agents.contract.git_source import (
    GitSourceError,
    address_problem,
    endpoint_problem,
    is_commit_source,
    is_endpoint_allowed,
    read_git_source,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("text", "url", "ref", "endpoint"),
    [
        (
            "git+https://github.com/team/app.git@main",
            "https://github.com/team/app.git",
            "main",
            "github.com",
        ),
        ("git+https://GitHub.com/team/app", "https://github.com/team/app", "", "github.com"),
        ("git+https://h.example:443/a", "https://h.example/a", "", "h.example"),
        ("git+https://h.example:8443/a/b/c", "https://h.example:8443/a/b/c", "", "h.example:8443"),
        ("git+https://10.0.0.7/a@v1.2", "https://10.0.0.7/a", "v1.2", "10.0.0.7"),
        (
            "git+ssh://h.example/team/app@feature/x-1",
            "ssh://git@h.example/team/app",
            "feature/x-1",
            "h.example",
        ),
        (
            f"git+ssh://me@h.example:2222/a@{COMMIT}",
            "ssh://me@h.example:2222/a",
            COMMIT,
            "h.example:2222",
        ),
    ],
)
def test_a_source_has_a_repository_and_a_ref(text, url, ref, endpoint):
    source = read_git_source(text)
    assert (source.url, source.ref, source.endpoint) == (url, ref, endpoint)
    assert read_git_source(str(source)) == source


@pytest.mark.parametrize(
    "text",
    [
        # Other protocols, and git's own ways to run a program.
        "git+http://h.example/a",
        "git+file:///etc/passwd",
        "git+ext::sh -c id",
        "git+git://h.example/a",
        "ext::sh -c id",
        "/srv/repository",
        "../repository",
        # Options, in every place.
        "--upload-pack=/bin/sh",
        "git+ssh://-oProxyCommand=id/a",
        "git+ssh://-oProxyCommand=id@h.example/a",
        "git+https://h.example/-a",
        "git+https://h.example/team/--upload-pack=id",
        "git+https://h.example/a@-x",
        "git+https://h.example/a@--upload-pack=id",
        # Refspecs and revisions.
        "git+https://h.example/a@+main",
        "git+https://h.example/a@main:refs/heads/x",
        "git+https://h.example/a@main..x",
        "git+https://h.example/a@main^",
        "git+https://h.example/a@refs/heads/*",
        "git+https://h.example/a@x.lock",
        "git+https://h.example/a@",
        # What a shell or a URL reads otherwise.
        "git+ssh://h.example/a;id",
        "git+ssh://h.example/$(id)",
        "git+ssh://h.example/a b",
        "git+https://h.example/a?x=1",
        "git+https://h.example/a#x",
        "git+https://h.example/a%2e%2e",
        "git+https://h.example/a\\b",
        "git+https://h.example/a\n",
        "git+https://h.example\n/a",
        "git+https://h.example/../a",
        "git+https://h.example/a/./b",
        "git+https://h.example//a",
        "git+https://h.example/",
        "git+https://h.example",
        "git+https:///a",
        # Passwords, and a host that hides behind a user.
        "git+https://alice:secret@h.example/a",
        "git+https://github.com@evil.example/a",
        "git+ssh://a:b@h.example/a",
        # Ports.
        "git+https://h.example:0/a",
        "git+https://h.example:65536/a",
        "git+https://h.example:x/a",
        "git+https://h.example:/a",
        # This machine and services of a cloud, in all spellings.
        "git+https://localhost/a",
        "git+https://x.localhost/a",
        "git+https://LOCALHOST/a",
        "git+https://localhost./a",
        "git+https://127.0.0.1/a",
        "git+https://127.1/a",
        "git+https://2130706433/a",
        "git+https://0x7f000001/a",
        "git+https://0x7f.0.0.1/a",
        "git+https://0177.0.0.1/a",
        "git+https://0/a",
        "git+https://0.0.0.0/a",
        "git+https://[::1]/a",
        "git+https://[fe80::1%eth0]/a",
        "git+https://169.254.169.254/a",
        "git+https://metadata.google.internal/a",
        "git+https://100.100.100.200/a",
        "git+https://224.0.0.1/a",
        # Names.
        "git+https://h_x.example/a",
        "git+https://-h.example/a",
        "git+https://h..example/a",
        "git+https://ｈ.example/a",
        "git+https://h.example/ａ",
        f"git+https://{'a' * 64}.example/a",
        f"git+https://h.example/{'a' * 600}",
        f"git+https://h.example/a@{'a' * 201}",
    ],
)
def test_anything_else_is_refused_with_a_sentence(text):
    with pytest.raises(GitSourceError) as refused:
        read_git_source(text)
    assert refused.value.message.text.isprintable()
    assert "secret" not in refused.value.message.text.replace("a secret with NAME:git", "")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("https://github.com/team/app", "git+https://github.com/team/app"),
        ("git@github.com:team/app.git", "git+ssh://git@github.com/team/app.git"),
        ("ssh://git@h.example:2222/a", "git+ssh://git@h.example:2222/a"),
        ("https://alice:password@h.example/a", ""),
        ("http://h.example/a", ""),
    ],
)
def test_another_spelling_of_a_url_is_mended(text, meant):
    with pytest.raises(GitSourceError) as refused:
        read_git_source(text)
    assert refused.value.suggestion == meant


@pytest.mark.parametrize(
    "text",
    [
        *("127.0.0.1", "127.8.9.10", "0.0.0.0", "169.254.0.7", "169.254.169.254", "224.0.0.1"),
        *("100.100.100.200", "168.63.129.16", "255.255.255.255", "240.0.0.1"),
        *("::", "::1", "fe80::1", "ff02::1", "fd00:ec2::254"),
        # The same, inside of other addresses.
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "2002:7f00:1::"),
    ],
)
def test_a_barred_address_is_barred_in_every_spelling(text):
    assert text.split("%")[0] and address_problem(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", ["140.82.112.3", "10.1.2.3", "192.168.0.4", "2001:db8::1"])
def test_a_host_may_be_in_a_private_network(text):
    assert address_problem(ipaddress.ip_address(text)) == ""


def test_a_host_is_allowed_with_its_port_alone():
    allowed = ("github.com", "git.example:8443")
    assert is_endpoint_allowed(read_git_source("git+https://github.com/a"), allowed)
    assert is_endpoint_allowed(read_git_source("git+https://git.example:8443/a"), allowed)
    for text in (
        "git+https://git.example/a",
        "git+https://github.com:8443/a",
        "git+https://github.com.evil.example/a",
        "git+https://evilgithub.com/a",
        "git+https://x.github.com/a",
    ):
        assert not is_endpoint_allowed(read_git_source(text), allowed)
    assert not is_endpoint_allowed(read_git_source("git+https://github.com/a"), ())


@pytest.mark.parametrize("text", ["", "*", "*.example", "https://h.example", "h.example:x", "::1"])
def test_a_list_of_hosts_has_no_wildcards(text):
    assert endpoint_problem(text)


def test_a_full_hash_alone_is_a_commit():
    assert is_commit_source(f"git+https://h.example/a@{COMMIT}")
    assert not is_commit_source(f"git+https://h.example/a@{COMMIT[:12]}")
    assert not is_commit_source("git+https://h.example/a")
    assert not is_commit_source(f"git+ssh://{COMMIT}@h.example/a")
