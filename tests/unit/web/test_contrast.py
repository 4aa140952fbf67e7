"""Every pair of colours that the pages put on each other is readable, by day and by night."""

import re
from pathlib import Path

import pytest

TOKENS = Path(__file__).resolve().parents[3] / "portal" / "static" / "tokens.css"
TEXT, MARK = 4.5, 3.0  # WCAG 2.2 AA: text, and borders or marks that carry meaning
MEANINGS = ("ok", "wait", "move", "warn", "bad", "ask")
PAIRS = [
    *[
        (ink, ground, TEXT)
        for ink in ("ink", "ink-2")
        for ground in ("ground", "surface", "sunken")
    ],
    ("ink-3", "surface", TEXT),
    ("ink-3", "sunken", TEXT),
    ("accent", "surface", TEXT),
    ("accent", "ground", TEXT),
    ("accent", "accent-soft", TEXT),
    ("on-accent", "accent-fill", TEXT),
    ("on-accent", "accent-press", TEXT),
    ("line-firm", "surface", MARK),
    ("focus", "surface", MARK),
    ("gold", "surface", MARK),
    *[(name, f"{name}-soft", TEXT) for name in MEANINGS],
    *[(name, "surface", TEXT) for name in MEANINGS],
    ("on-accent", "t-mine", TEXT),
    ("t-on-team", "t-team", TEXT),
    ("ink", "t-other", TEXT),
    ("ink-2", "t-idle", TEXT),
    ("ink-2", "t-free", TEXT),
]


def colours() -> dict[str, tuple[str, str]]:
    """Each role's colour by day and by night."""
    found = {}
    for name, value in re.findall(r"--([\w-]+): ([^;]+);", TOKENS.read_text("utf-8")):
        shades = re.findall(r"#[0-9a-f]{6}", value)
        if shades:
            found[name] = (shades[0], shades[-1])
    return found


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_formula_gives_the_known_ends():
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#777777") == 1


@pytest.mark.parametrize(("ink", "ground", "needed"), PAIRS)
@pytest.mark.parametrize("scheme", [0, 1], ids=["day", "night"])
def test_a_pair_can_be_read(ink, ground, needed, scheme):
    roles = colours()
    found = contrast(roles[ink][scheme], roles[ground][scheme])
    assert found >= needed, f"{ink} on {ground}: {found:.2f}"
