"""Names every difference between a real node and its simulated twin. Pure, but for `write`."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SCHEMA = 1
NAME = "test-gpu.json"
# What the planner computes with: here a difference fails the suite.
GEOMETRY = ("id", "query_index", "name", "compute_slices", "max_instances", "places")
SIZES = ("memory_mib", "multiprocessors")


@dataclass(frozen=True, slots=True)
class Difference:
    """`where` is a path such as "gpus.0.profiles.19.memory_mib"; None stands for: has none."""

    where: str
    real: Any
    simulated: Any

    def __str__(self) -> str:
        return f"{self.where}: real {self.real!r}, simulated {self.simulated!r}"


def differences(
    reading: dict[str, Any], twin_of: Callable[[dict[str, Any], str], dict[str, Any]]
) -> list[Difference]:
    """Of all GPUs with the twin of their board; of pairs where all GPUs answer and are of one
    board."""
    found: list[Difference] = []
    keys = sorted({gpu["board"] for gpu in reading["gpus"] if gpu["board"]})
    for key in keys:
        twin = twin_of(reading, key)
        gpus = [gpu for gpu in reading["gpus"] if gpu["board"] == key]
        for real, simulated in zip(gpus, twin["gpus"], strict=True):
            found += gpu_differences(real, simulated)
        if len(gpus) == reading["count"]:
            found += _between("pairs", reading["pairs"], twin["pairs"])
            domains = reading["nvswitch_domains"], twin["nvswitch_domains"]
            found += _one("nvswitch_domains", *domains)
    unknown = [gpu for gpu in reading["gpus"] if not gpu["board"]]
    found += [Difference(f"gpus.{u['index']}.board", u["product_name"], None) for u in unknown]
    return found


def gpu_differences(real: dict[str, Any], simulated: dict[str, Any]) -> list[Difference]:
    """Of one GPU. What differs from machine to machine (UUID, bus, CPUs) is not compared, and of
    what goes up and down only whether it is answered. Room left depends on what runs. A board of
    the table may have several names: that it was found by one of them is all there is to say."""
    at = f"gpus.{real['index']}"
    return [
        *_one(f"{at}.memory_mib", real["memory_mib"], simulated["memory_mib"]),
        *profile_differences(at, real["profiles"], simulated["profiles"]),
        *_between(f"{at}.facts", real["facts"], simulated["facts"]),
        *_between(f"{at}.telemetry", _codes(real), _codes(simulated)),
        *_between(f"{at}.probes", real["probes"], simulated["probes"]),
        *_between(f"{at}.wiring", _wiring(real), _wiring(simulated)),
    ]


def profile_differences(
    at: str, real: list[dict[str, Any]], simulated: list[dict[str, Any]]
) -> list[Difference]:
    """By profile id."""
    one, other = ({str(p["id"]): _profile(p) for p in side} for side in (real, simulated))
    return _between(f"{at}.profiles", one, other)


def is_geometry(difference: Difference) -> bool:
    """Whether the planner would reckon wrongly: a profile more or less, or other numbers of it."""
    words = difference.where.split(".")
    return words[2:3] == ["profiles"] and (len(words) == 4 or words[4] in GEOMETRY)


def lines(reading: dict[str, Any], found: list[Difference]) -> list[str]:
    """For people. GPUs that differ alike are one line: "gpus.*" stands for each."""
    alike: dict[str, list[Difference]] = {}
    for difference in found:
        words = difference.where.split(".")
        shown = ".".join(["gpus", "*", *words[2:]]) if words[0] == "gpus" else difference.where
        alike.setdefault(str(replace(difference, where=shown)), []).append(difference)
    return [
        f"{_boards(reading)}, driver {reading['versions']['driver']}.",
        f"{len(found)} differences from the simulated board, {len(alike)} kinds:",
        *(f"  {len(group)} x {text}" for text, group in alike.items()),
    ]


def _boards(reading: dict[str, Any]) -> str:
    names = [gpu["product_name"] for gpu in reading["gpus"]]
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))


def write(document: dict[str, Any]) -> Path:
    """Into $OUT/test-gpu.json, without OUT into var/. Answers where it is."""
    named = os.environ.get("OUT", "")
    path = (Path(named) if named else ROOT / "var") / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return path


def document(
    reading: dict[str, Any],
    found: list[Difference],
    outcomes: dict[str, dict[str, str]],
    changed: list[str],
    status: int,
) -> dict[str, Any]:
    """The report: `status` is the exit status, `checks` what became of each by its name."""
    ended = [told["outcome"] for told in outcomes.values()]
    return {
        "schema": SCHEMA,
        "status": status,
        "simulated": reading["simulated"],
        "counts": {word: ended.count(word) for word in ("passed", "failed", "skipped")},
        "changed_meanwhile": changed,
        "differences": [{**asdict(d), "geometry": is_geometry(d)} for d in found],
        "checks": outcomes,
        "reading": reading,
    }


def _profile(profile: dict[str, Any]) -> dict[str, Any]:
    return {name: profile[name] for name in (*GEOMETRY, *SIZES)}


def _codes(gpu: dict[str, Any]) -> dict[str, str]:
    return {name: told["code"] for name, told in gpu["telemetry"].items()}


def _wiring(gpu: dict[str, Any]) -> dict[str, Any]:
    if gpu["wiring"] is None:
        return {}
    wiring, links = gpu["wiring"], gpu["wiring"]["nvlinks"]
    return {
        "pcie_generation": wiring["pcie_generation"],
        "pcie_width": wiring["pcie_width"],
        "own_numa_node": wiring["own_numa_node"],
        "nvlinks": [link["number"] for link in links],
        "nvlink_generations": sorted({link["generation"] for link in links}),
        "nvlink_remotes": sorted({link["remote"] for link in links}),
    }


def _between(at: str, real: dict[str, Any], simulated: dict[str, Any]) -> list[Difference]:
    return [
        d for name in _names(real, simulated) for d in _deep(f"{at}.{name}", name, real, simulated)
    ]


def _names(real: dict[str, Any], simulated: dict[str, Any]) -> list[str]:
    return [*real, *(name for name in simulated if name not in real)]


def _deep(
    at: str, name: str, real: dict[str, Any], simulated: dict[str, Any]
) -> Iterator[Difference]:
    one, other = real.get(name), simulated.get(name)
    if isinstance(one, dict) and isinstance(other, dict):
        yield from _between(at, one, other)
    else:
        yield from _one(at, one, other)


def _one(where: str, real: Any, simulated: Any) -> list[Difference]:
    return [] if real == simulated else [Difference(where, real, simulated)]
