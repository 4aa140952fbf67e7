"""Versions sort as Debian sorts them."""

import random
import shutil
import subprocess

import pytest

from agents.doctor.versions import Version

# In order; each is below the next.
LADDER = (
    "1.1.5~rc1-1",
    "1.1.5+ds1-1",
    "1.1.5+ds1-1+deb12u1",
    "1.1.5+ds1-1+deb12u2",
    "1.1.9-1.el9",
    "1.1.12-0ubuntu2~22.04.1",
    "1.1.12-0ubuntu2",
    "1.2.8",
    "1.2.8a",
    "1.2.8+a",
    "1.2.10",
    "1.4.0~rc3",
    "1.4.0",
    "470.42.01",
    "550.90.07",
    "550.163.01",
    "580.95.05",
    "1:0.1",
)
PAIRS = [(LADDER[i], LADDER[j]) for i in range(len(LADDER)) for j in range(len(LADDER))]


@pytest.mark.parametrize("written", LADDER)
def test_a_version_equals_itself_alone(written):
    assert [other for other in LADDER if Version(other) == Version(written)] == [written]


def test_versions_sort_by_their_numbers_suffixes_and_epochs():
    shuffled = random.Random(3).sample(LADDER, len(LADDER))
    assert sorted(shuffled, key=Version) == list(LADDER)


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="no dpkg to compare with")
def test_the_order_is_that_of_dpkg():
    ask = 'while read a b; do dpkg --compare-versions "$a" lt "$b" && echo 1 || echo 0; done'
    lines = "".join(f"{one} {other}\n" for one, other in PAIRS)
    said = subprocess.run(
        ["sh", "-c", ask], input=lines, capture_output=True, text=True, check=True
    )
    ours = [str(int(Version(one) < Version(other))) for one, other in PAIRS]
    assert ours == said.stdout.split()


@pytest.mark.parametrize(
    ("pre", "release"),
    [("1.4.0-rc.3", "1.4.0"), ("1.18.0-rc.1", "1.18.0"), ("1.4.0-rc.2", "1.4.0-rc.3")],
)
def test_a_release_candidate_comes_before_its_release(pre, release):
    assert Version(pre) < Version(release)


def test_equal_versions_written_differently_are_one_key():
    assert len({Version("1.05"), Version("1.5"), Version("v1.5")}) == 1


@pytest.mark.parametrize(
    ("written", "vendors"),
    [
        ("1.1.5+ds1-1+deb12u1", True),
        ("1.1.12-0ubuntu2~22.04.1", True),
        ("1.1.9-1.el9", True),
        ("1.3.6", False),
        ("1.4.0-rc.3", False),
        ("1.2.0+dev", False),
    ],
)
def test_a_distributions_build_is_told_from_upstreams(written, vendors):
    assert Version(written).is_distribution_build is vendors
