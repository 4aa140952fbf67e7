"""What NVIDIA_REQUIRE_* of an image asks for, read as NVIDIA's container toolkit reads it."""

import pytest

from agents.contract.image_needs import (
    ImageNeeds,
    NodeFit,
    image_requirements,
    meets,
    read_requirement,
    unmet_need,
)

# As in NVIDIA's own images: newer drivers, or older ones of some boards with the compatibility
# package.
CUDA_12_4 = (
    "cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=unknown,driver>=470,driver<471 "
    "brand=nvidia,driver>=470,driver<471 brand=tesla,driver>=535,driver<536"
)


@pytest.mark.parametrize(
    ("text", "cuda", "driver", "is_met"),
    [
        (CUDA_12_4, "12.4", "550.54", True),
        (CUDA_12_4, "13.0", "580.159.03", True),
        (CUDA_12_4, "12.2", "535.104.05", True),
        (CUDA_12_4, "12.2", "536", False),
        (CUDA_12_4, "11.4", "470.82", True),
        (CUDA_12_4, "11.4", "469", False),
        (CUDA_12_4, "", "", True),
        (CUDA_12_4, "12.2", "", True),
        ("cuda>=12", "12.0", "", True),
        ("cuda=12", "12.0", "", True),
        ("cuda!=12.1", "12.1", "", False),
        ("cuda>11.8", "11.8", "", False),
        ("cuda>=9.0 driver>384.80", "8.0", "390", True),
        ("cuda>=9.0,driver>384.80", "9.0", "384.80", False),
        ("CUDA>=99.9", "12.4", "550", False),
        ("driver<=470.57.2", "", "470.57.02", True),
        # Not compared, so nothing is refused for it.
        ("arch>=9.0", "8.0", "390", True),
        ("cuda>=99.9 arch>=9.0", "8.0", "390", True),
        ("brand=tesla,cuda>=99.9", "8.0", "390", False),
        # Not understood, so the toolkit decides.
        ("cuda", "8.0", "390", True),
        ("cuda>=99.9 >", "8.0", "390", True),
        ("", "8.0", "390", True),
        ("cuda>=99.9 " * 60, "8.0", "390", False),
        (" ".join(f"cuda>=99.{n}" for n in range(60)), "8.0", "390", True),
    ],
)
def test_a_space_is_an_or_and_a_comma_an_and(text, cuda, driver, is_met):
    needs = ImageNeeds(image_requirements([f"NVIDIA_REQUIRE_CUDA={text}"]))
    assert meets(NodeFit(cuda, driver), needs) is is_met
    assert bool(unmet_need(needs, NodeFit(cuda, driver))) is not is_met


@pytest.mark.parametrize(
    ("env", "found"),
    [
        ((), ()),
        (("CUDA_VERSION=12.4.1", "NVIDIA_VISIBLE_DEVICES=all"), ()),
        (("NVIDIA_REQUIRE_B=driver>=1", "NVIDIA_REQUIRE_A=cuda>=2"), ("cuda>=2", "driver>=1")),
        (("NVIDIA_REQUIRE_CUDA=cuda>=2", "NVIDIA_DISABLE_REQUIRE=true"), ()),
        (("NVIDIA_REQUIRE_CUDA=cuda>=2", "NVIDIA_DISABLE_REQUIRE=0"), ("cuda>=2",)),
        (("NVIDIA_REQUIRE_JETPACK_HOST_MOUNTS=base-only", "broken"), ()),
    ],
)
def test_all_variables_count_unless_the_image_switches_the_check_off(env, found):
    assert image_requirements(env) == found


def test_a_long_requirement_is_kept_in_few_words():
    assert read_requirement(CUDA_12_4) == (
        "cuda>=12.4 driver>=470,driver<471 driver>=535,driver<536"
    )


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        (ImageNeeds(("cuda>=12.4",)), "a driver for CUDA 12.4, which is 550 or newer"),
        (ImageNeeds(("cuda>=99.9",)), "a driver for CUDA 99.9"),
        (ImageNeeds(("driver>=999,driver<1000",)), "a driver with driver>=999, driver<1000"),
        (ImageNeeds((), "arm64"), "a node of architecture arm64"),
    ],
)
def test_the_words_say_which_driver_it_needs(needs, words):
    assert unmet_need(needs, NodeFit("12.2", "535.104", "amd64")).text == words
