"""Which registry a credential is for, and which images are in it."""

import pytest

from agents.contract.image_reference import ImageReferenceError
from agents.contract.registries import read_registry, registry_of


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("ghcr.io", "ghcr.io"),
        ("ghcr.io/team/app", "ghcr.io/team/app"),
        ("localhost:5000", "localhost:5000"),
        ("docker.io", "docker.io"),
        ("index.docker.io/team", "docker.io/team"),
        ("team", "docker.io/team"),
    ],
)
def test_a_registry_is_a_host_and_perhaps_a_path(text, stored):
    assert read_registry(text) == stored


@pytest.mark.parametrize("text", ["", "https://ghcr.io", "ghcr.io/", "ghcr.io/Team", "ghcr.io/a:1"])
def test_what_is_no_registry_is_refused_with_a_sentence(text):
    with pytest.raises(ImageReferenceError, match="is not"):
        read_registry(text)


@pytest.mark.parametrize(
    ("image", "found"),
    [
        ("ghcr.io/team/app:1", "ghcr.io/team"),
        ("ghcr.io/team@sha256:" + "0a" * 32, "ghcr.io"),
        ("ghcr.io/teams/app", "ghcr.io"),
        ("ghcr.io:443/team/app", None),
        ("ghcr.io.example/team/app", None),
        ("python:3.12", "docker.io"),
        ("", None),
        ("no image", None),
    ],
)
def test_an_image_is_in_the_registry_with_the_longest_path(image, found):
    assert registry_of(image, ["ghcr.io", "ghcr.io/team", "docker.io"]) == found
