"""Variables that look like settings and are none: nobody reads them, so what they ask is lost."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches

PREFIX = "TESSERA_"
# Below this likeness a name is no slip of the pen.
LIKENESS = 0.75
# The agent does not know the names that only the portal reads: nearer than any of them.
AGENT_LIKENESS = 0.93


def misspelt_settings(names: Iterable[str], known_names: Collection[str]) -> list[str]:
    """A sentence for each variable that is nearly one of the names. Others may be another
    program's."""
    candidates = [name for name in names if name.startswith(PREFIX) and name not in known_names]
    nearest = {
        name: get_close_matches(name, sorted(known_names), 1, AGENT_LIKENESS)
        for name in sorted(candidates)
    }
    return [_sentence(name, known_names) for name, found in nearest.items() if found]


def unknown_settings(names: Iterable[str], known_names: Collection[str]) -> list[str]:
    """A sentence for each variable that begins like a setting and is none, with the nearest one."""
    return [
        _sentence(name, known_names)
        for name in sorted(names)
        if name.startswith(PREFIX) and name not in known_names
    ]


def _sentence(name: str, known_names: Collection[str]) -> str:
    if name.removesuffix("_FILE") in known_names:
        return f"{name} is ignored: only secrets are read from files"
    nearest = get_close_matches(name, sorted(known_names), 1, LIKENESS)
    guess = f": did you mean {nearest[0]}?" if nearest else ""
    return f"{name} is not a setting, so it is ignored{guess}"
