"""What an image needs of the node that runs it: a driver, by the variables NVIDIA_REQUIRE_* of its
environment, and an architecture. Pure; for portal, planner and agents.

The grammar is that of the container toolkit (libnvidia-container, `src/cli/dsl.c`):

    NVIDIA_REQUIRE_CUDA=cuda>=12.4 brand=tesla,driver>=470,driver<471

A space is an OR, a comma an AND; several variables must all be met. Of its properties, `cuda` and
`driver` are compared. What the others say (`brand`, `arch`) counts as met, since nodes do not
report it: an image is refused only where it certainly cannot run.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from operator import eq, ge, gt, le, lt, ne

from agents.contract.codec import rule
from agents.contract.message import NO_MESSAGE, Message

IMAGE_UNFIT = "image_unfit"
"""The code of a replica that its node refused to start for what its image needs."""
MAX_REQUIREMENTS = 8
MAX_REQUIREMENT_LENGTH = 512
MAX_ARCHITECTURE_LENGTH = 32
PREFIX = "NVIDIA_REQUIRE_"
# Any value of it but these switches the toolkit's check off.
DISABLED, NOT_DISABLED = "NVIDIA_DISABLE_REQUIRE", ("", "0", "f", "F", "false", "False", "FALSE")
# It is about boards of robots, and the toolkit leaves it out as well.
JETPACK = f"{PREFIX}JETPACK"
# The first driver of each release (CUDA Toolkit Release Notes, table "CUDA Toolkit and
# Corresponding Driver Versions").
DRIVER_OF_CUDA = {
    **{"11.0": 450, "11.1": 455, "11.2": 460, "11.3": 465, "11.4": 470, "11.5": 495},
    **{"11.6": 510, "11.7": 515, "11.8": 520, "12.0": 525, "12.1": 530, "12.2": 535},
    **{"12.3": 545, "12.4": 550, "12.5": 555, "12.6": 560, "12.8": 570, "12.9": 575},
    "13.0": 580,
}

Comparison = Callable[[tuple[int, ...], tuple[int, ...]], bool]
_COMPARISONS: dict[str, Comparison] = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_TERM = re.compile(r"(cuda|driver)(=|!=|<=|>=|<|>)([0-9]+(?:\.[0-9]+){0,3})", re.IGNORECASE)
_OTHER_TERM = re.compile(r"[A-Za-z]+(?:=|!=|<=|>=|<|>)[^<>=!]+")
_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+){0,3}")
# Numbers of a version that are compared.
_PARTS = 4


@dataclass(frozen=True, slots=True)
class ImageNeeds:
    """What is known of an image. Nothing is needed where a field is empty."""

    requirements: tuple[str, ...] = field(default=(), metadata=rule(max_length=MAX_REQUIREMENTS))
    """Each as `read_requirement` returns it. All must be met."""
    architecture: str = field(default="", metadata=rule(max_length=MAX_ARCHITECTURE_LENGTH))
    """The only one that the image exists for, in Docker's words: "amd64", "arm64"."""

    def __bool__(self) -> bool:
        return bool(self.requirements or self.architecture)


NO_NEEDS = ImageNeeds()


@dataclass(frozen=True, slots=True)
class NodeFit:
    """What a node has of that. Nothing is compared where a field is empty."""

    cuda: str = ""
    """The highest version that its driver runs, such as "12.4"."""
    driver: str = ""
    architecture: str = ""


NO_FIT = NodeFit()


def image_requirements(env: Iterable[str]) -> tuple[str, ...]:
    """The requirements of an image with this environment ("NAME=value"), sorted."""
    values = dict(entry.split("=", 1) for entry in env if "=" in entry)
    if values.get(DISABLED, "") not in NOT_DISABLED:
        return ()
    texts = (v for name, v in values.items() if name.startswith(PREFIX) and name != JETPACK)
    found = sorted({read for text in texts if (read := read_requirement(text))})
    return tuple(found[:MAX_REQUIREMENTS])


def read_requirement(text: str) -> str:
    """A requirement in few words, equal for equal ones: its alternatives, each once, with the terms
    that are compared. Empty for one that asks for nothing, is too long or is not understood."""
    alternatives: dict[str, None] = {}
    for alternative in text.split(" "):
        terms = [term for term in alternative.split(",") if term]
        if not terms:
            continue
        if not all(_TERM.fullmatch(term) or _OTHER_TERM.fullmatch(term) for term in terms):
            return ""
        compared = [term.lower() for term in terms if _TERM.fullmatch(term)]
        if not compared:
            return ""
        alternatives[",".join(compared)] = None
    read = " ".join(alternatives)
    return read if len(read) <= MAX_REQUIREMENT_LENGTH else ""


def unmet_need(needs: ImageNeeds, fit: NodeFit) -> Message:
    """What of it the node does not have, as the end of "it needs"; NO_MESSAGE if it has all."""
    if not _is_of(needs.architecture, fit):
        return Message("a node of architecture %(needed)s", needed=needs.architecture)
    unmet = (each for each in needs.requirements if not _is_met(each, fit))
    return next(map(needed_driver, unmet), NO_MESSAGE)


def unfit_message(image: str, needs: ImageNeeds, fit: NodeFit) -> Message:
    """Why a node refuses to start an image; NO_MESSAGE if it does not."""
    need = unmet_need(needs, fit)
    if not need:
        return NO_MESSAGE
    sentence = (
        "The image %(image)s needs %(need)s; this node has CUDA %(cuda)s"
        " (driver %(driver)s, %(architecture)s)"
    )
    words = {name: getattr(fit, name) or "?" for name in ("cuda", "driver", "architecture")}
    return Message(sentence, image=image, need=need, **words)


def meets(fit: NodeFit, needs: ImageNeeds) -> bool:
    is_met = (_is_met(each, fit) for each in needs.requirements)
    return _is_of(needs.architecture, fit) and all(is_met)


def needed_driver(requirement: str) -> Message:
    """Its first alternative, which is the plain one in NVIDIA's images, in words."""
    first = requirement.split(" ")[0]
    cuda = first.removeprefix("cuda>=")
    if cuda == first or not _VERSION.fullmatch(cuda):
        return Message("a driver with %(needed)s", needed=first.replace(",", ", "))
    driver = DRIVER_OF_CUDA.get(cuda)
    if driver is None:
        return Message("a driver for CUDA %(cuda)s", cuda=cuda)
    return Message(
        "a driver for CUDA %(cuda)s, which is %(driver)s or newer", cuda=cuda, driver=driver
    )


def _is_of(architecture: str, fit: NodeFit) -> bool:
    return not architecture or fit.architecture in ("", architecture)


@lru_cache(4_096)
def _is_met(requirement: str, fit: NodeFit) -> bool:
    have = {"cuda": _numbers(fit.cuda), "driver": _numbers(fit.driver)}
    return any(
        all(_is_true(term, have) for term in alternative.split(","))
        for alternative in requirement.split(" ")
    )


def _is_true(term: str, have: dict[str, tuple[int, ...] | None]) -> bool:
    match = _TERM.fullmatch(term)
    # As written by a newer agent.
    if match is None:
        return True
    version, wanted = have[match[1]], _numbers(match[3])
    return version is None or wanted is None or _COMPARISONS[match[2]](version, wanted)


def _numbers(version: str) -> tuple[int, ...] | None:
    """Of equal length, so that 12 equals 12.0; None if it is no version."""
    if not _VERSION.fullmatch(version):
        return None
    numbers = [int(part) for part in version.split(".")]
    return tuple(numbers + [0] * (_PARTS - len(numbers)))
