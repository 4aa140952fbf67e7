"""Finding 2.10 of the security review: a pattern admits one registry, and an id is no name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.admission.policy import PolicyError, read_policy
from agents.contract.image_reference import (
    ImageReferenceError,
    is_image_allowed,
    pattern_problem,
    read_image,
)

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("python", "docker.io/library/python:latest"),
        ("python:3.12", "docker.io/library/python:3.12"),
        ("pytorch/pytorch:2.7", "docker.io/pytorch/pytorch:2.7"),
        ("docker.io/python", "docker.io/library/python:latest"),
        ("index.docker.io/library/python", "docker.io/library/python:latest"),
        ("localhost/x", "localhost/x:latest"),
        ("registry:5000/a/b__c/d---e:T.1", "registry:5000/a/b__c/d---e:T.1"),
        ("registry:5000", "docker.io/library/registry:5000"),
        ("[2001:db8::1]:5000/x", "[2001:db8::1]:5000/x:latest"),
        ("Registry.Example/x", "Registry.Example/x:latest"),
        (f"nvcr.io/nvidia/pytorch@{DIGEST}", f"nvcr.io/nvidia/pytorch@{DIGEST}"),
        (f"x:1@{DIGEST}", f"docker.io/library/x:1@{DIGEST}"),
        ("cafe:latest", "docker.io/library/cafe:latest"),
        ("deadbeef.example/x", "deadbeef.example/x:latest"),
    ],
)
def test_a_name_is_read_as_docker_reads_it(text, full):
    assert str(read_image(text)) == full
    assert read_image(full) == read_image(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (DIGEST, "may be the id of any image"),
        ("sha256:0a1b", "may be the id of any image"),
        ("0a" * 32, "may be the id of any image"),
        ("deadbeef0123", "may be the id of any image"),
        ("cafe", "may be the id of any image"),
        ("", "is not a part of an image's name"),
        ("registry.example/../evil/x", "is not a part of an image's name"),
        ("a//b", "is not a part of an image's name"),
        ("/a", "is not a part of an image's name"),
        ("a/", "is not a part of an image's name"),
        ("A/B", "is not a part of an image's name"),
        ("a..b", "is not a part of an image's name"),
        ("a___b", "is not a part of an image's name"),
        ("--privileged", "is not a part of an image's name"),
        ("a b", "is not a part of an image's name"),
        ("a\n", "is not a part of an image's name"),
        ("a*", "is not a part of an image's name"),
        ("x@y", "is not a digest"),
        ("x@sha256:0a1b", "is not a digest"),
        ("x:", "is not a tag"),
        ("x:-1", "is not a tag"),
        ("x:" + "t" * 129, "is not a tag"),
        ("-bad.example/x", "is not the host"),
        ("a.example:port/x", "is not the host"),
        ("x" * 256, "at most 255"),
        ("x" * 501, "at most 500"),
    ],
)
def test_what_is_no_name_is_refused_with_the_reason(text, reason):
    with pytest.raises(ImageReferenceError, match=reason):
        read_image(text)
    assert not is_image_allowed(text, ["*"]) or not text


@pytest.mark.parametrize(
    ("pattern", "admitted", "foreign"),
    [
        (
            "registry.example/*",
            ("registry.example/a", "registry.example/a/b/c:9", f"registry.example/a@{DIGEST}"),
            ("registry.example.evil.com/x", "evil.com/registry.example/x", "registry.example:1/x"),
        ),
        ("team*", ("team", "team-x:2"), ("team.evil.com/x", "team/x", "teamx/y")),
        ("team/*", ("team/x", "docker.io/team/x:1"), ("team.evil.com/x", "evil/team/x")),
        (
            "nvcr.io/nvidia/py*",
            ("nvcr.io/nvidia/pytorch:2",),
            ("nvcr.io/nvidia/py/x", "nvcr.io/py"),
        ),
        ("nvcr.io/*/pytorch:2.*", ("nvcr.io/a/pytorch:2.7",), ("nvcr.io/a/b/pytorch:2.7",)),
        ("pytorch:2.*", ("pytorch:2.7",), ("pytorch", f"pytorch:2.7@{DIGEST}", "pytorch:3")),
        ("python", ("python", "python:latest"), ("python:3", f"python@{DIGEST}")),
        (f"x@{DIGEST}", (f"x@{DIGEST}", f"x:1@{DIGEST}"), ("x", f"x@{DIGEST[:-2]}ff")),
        # A host has no wildcards: such patterns, of an older version, admit nothing.
        ("*.example/*", (), ("evil.com/a.example/x", "a.example/x")),
        ("registry.example*", (), ("registry.example.evil.com/x", "registry.example/x")),
    ],
)
def test_a_pattern_compares_the_host_whole_and_the_path_by_segments(pattern, admitted, foreign):
    assert [image for image in admitted if not is_image_allowed(image, [pattern])] == []
    assert [image for image in foreign if is_image_allowed(image, [pattern])] == []


def test_no_image_is_admitted_where_every_image_is():
    assert is_image_allowed("", ["*"])
    assert not is_image_allowed("", ["team/*"])


@pytest.mark.parametrize(
    "pattern", ["*", "team/*", "registry.example:5000/*", "pytorch:2.*", f"x@{DIGEST}", "a?c*"]
)
def test_patterns_that_can_match_are_accepted(pattern):
    assert not pattern_problem(pattern)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("*.example/*", "a host has no wildcards"),
        ("", "matches no part"),
        ("a//b", "matches no part"),
        ("a[bc]", "matches no part"),
        ("a:b:c", "matches no tag"),
        ("x@sha256:*", "is not a digest"),
        ("x:", "matches no tag"),
    ],
)
def test_a_pattern_that_can_match_nothing_is_refused(pattern, reason, tmp_path):
    assert reason in pattern_problem(pattern).text
    policy = tmp_path / "policy.toml"
    policy.write_text(f"images = ['registry.example/*', '{pattern}']\n")
    policy.chmod(0o600)
    with pytest.raises(PolicyError, match=reason):
        read_policy(policy)


parts = st.from_regex(r"[a-z0-9]+([._-][a-z0-9]+){0,2}", fullmatch=True)
hosts = st.from_regex(r"[a-z][a-z0-9]{0,8}\.[a-z]{2,4}(:[0-9]{2,4})?", fullmatch=True)


@given(host=hosts, other=hosts, path=st.lists(parts, min_size=1, max_size=4))
def test_a_list_of_one_registry_admits_no_other(host, other, path):
    image = "/".join((other, *path))
    assert is_image_allowed(image, [f"{host}/*"]) == (host == other)
