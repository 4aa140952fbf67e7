"""The GPU boards whose MIG geometry is known, from `boards.json` (which names its sources).

A driver's own answer always wins over this table. The table serves planning, the simulated driver,
and nodes that have not reported yet.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from agents.contract.units import slice_units


@dataclass(frozen=True, slots=True)
class Profile:
    """A MIG GPU-instance profile of one board."""

    name: str
    # The number that the driver's create call takes and nvidia-smi prints.
    id: int
    # NVML_GPU_INSTANCE_PROFILE_*, by which the driver is asked: another number than `id`.
    query_index: int
    compute_slices: int
    memory_slices: int
    memory_mib: int
    # 0 where no measurement is known.
    multiprocessors: int
    max_instances: int
    # The memory slices at which an instance may begin; it covers `memory_slices` from there.
    starts: tuple[int, ...]
    copy_engines: int = 0
    decoders: int = 0
    encoders: int = 0
    jpeg_engines: int = 0
    ofa_engines: int = 0
    # Names of fields that were not read on such a board, but inferred (see boards.json).
    estimated: frozenset[str] = frozenset()

    @property
    def has_media_extensions(self) -> bool:
        """True for the `+me`, `+gfx` and `-me` variants, which a plain request never gets."""
        return "+" in self.name or self.name.count("-") > 0


@dataclass(frozen=True, slots=True)
class Board:
    """One kind of GPU. A board without MIG has one memory slice, one compute slice, no profiles."""

    key: str
    product_names: tuple[str, ...]
    architecture: str
    compute_capability: str
    memory_mib: int
    memory_slices: int
    compute_slices: int
    multiprocessors: int
    mode_change_needs_reset: bool
    mode_persists_reboot: bool
    profiles: tuple[Profile, ...]
    # Names of the board's own inferred fields; each profile has its own set.
    estimated: frozenset[str] = frozenset()

    @property
    def supports_mig(self) -> bool:
        return bool(self.profiles)

    @property
    def model(self) -> str:
        """The short name that people use: "H200" for "H200-141GB"."""
        return self.key.rsplit("-", 1)[0]

    def profile(self, name: str) -> Profile | None:
        return next((p for p in self.profiles if p.name == name), None)

    def profile_by_id(self, profile_id: int) -> Profile | None:
        return next((p for p in self.profiles if p.id == profile_id), None)

    def units(self, profile: Profile) -> int:
        """Units that an instance of `profile` costs: its dominant share of this board."""
        return slice_units(
            profile.compute_slices, self.compute_slices, profile.memory_slices, self.memory_slices
        )


# Boards without MIG. SM counts: NVIDIA's data sheets of L40S and T4. The T4's memory is estimated.
_WITHOUT_MIG = (
    Board(
        key="L40S-48GB",
        product_names=("NVIDIA L40S",),
        architecture="ada",
        compute_capability="8.9",
        memory_mib=46_068,
        memory_slices=1,
        compute_slices=1,
        multiprocessors=142,
        mode_change_needs_reset=False,
        mode_persists_reboot=False,
        profiles=(),
    ),
    Board(
        key="T4-16GB",
        product_names=("Tesla T4", "NVIDIA T4"),
        architecture="turing",
        compute_capability="7.5",
        memory_mib=15_360,
        memory_slices=1,
        compute_slices=1,
        multiprocessors=40,
        mode_change_needs_reset=False,
        mode_persists_reboot=False,
        profiles=(),
        estimated=frozenset({"memory_mib"}),
    ),
)


@cache
def known_boards() -> dict[str, Board]:
    """Every known board by key, such as "H200-141GB"."""
    raw = json.loads(files("agents.contract").joinpath("boards.json").read_text("utf-8"))
    with_mig = (_board(key, model) for key, model in raw["models"].items())
    return {board.key: board for board in (*with_mig, *_WITHOUT_MIG)}


def board_named(product_name: str, memory_mib: int) -> Board | None:
    """The board with a driver's product name; of several, the one nearest in memory size."""
    named = [b for b in known_boards().values() if product_name in b.product_names]
    return min(named, key=lambda b: (abs(b.memory_mib - memory_mib), b.key), default=None)


def unknown_board(product_name: str, memory_mib: int, profiles: tuple[Profile, ...] = ()) -> Board:
    """A board that the table lacks, with the `profiles` that its driver reports.

    It is offered whole and in those profiles. Whether a mode change needs a reset is only found
    out by trying one."""
    return Board(
        key=product_name,
        product_names=(product_name,),
        architecture="unknown",
        compute_capability="",
        memory_mib=memory_mib,
        memory_slices=max((p.starts[-1] + p.memory_slices for p in profiles), default=1),
        compute_slices=max((p.compute_slices * p.max_instances for p in profiles), default=1),
        multiprocessors=max((p.multiprocessors for p in profiles), default=0),
        mode_change_needs_reset=False,
        mode_persists_reboot=False,
        profiles=profiles,
    )


def _board(key: str, model: dict[str, Any]) -> Board:
    slice_mib = _slice_mib(model["gi_profiles"])
    return Board(
        key=key,
        product_names=tuple(model["product_names"]),
        architecture=model["architecture"],
        compute_capability=model["compute_capability"],
        memory_mib=model["memory_total_mib"] or slice_mib * model["memory_slices"],
        memory_slices=model["memory_slices"],
        compute_slices=model["compute_slices"],
        multiprocessors=model["sm_total"] or 0,
        mode_change_needs_reset=model["mode_change_needs_reset"],
        mode_persists_reboot=model["mode_persists_reboot"],
        profiles=tuple(
            _profile(p, slice_mib, _estimated_fields(model, p)) for p in model["gi_profiles"]
        ),
        estimated=_estimated_board_fields(model),
    )


def _estimated_board_fields(model: dict[str, Any]) -> frozenset[str]:
    is_verified = "memory_total_mib" not in model["verified"].get("note", "")
    return frozenset(() if model["memory_total_mib"] and is_verified else ("memory_mib",))


def _estimated_fields(model: dict[str, Any], profile: dict[str, Any]) -> frozenset[str]:
    """Fields that its row marks as estimated or leaves out, and unverified placements."""
    field_names = {"sm": "multiprocessors", "placements": "starts", "jpeg": "jpeg_engines"}
    estimated = set(profile.get("estimated_fields") or ())
    estimated |= {name for name in ("memory_mib", "sm") if profile[name] is None}
    if model["verified"]["placements"] is not True:
        estimated.add("placements")
    return frozenset(field_names.get(name, name) for name in estimated)


def _slice_mib(profiles: list[dict[str, Any]]) -> int:
    """Memory of one slice, from the largest measured profile, for profiles without a number.

    A lower bound: larger profiles have a little more memory per slice.
    """
    measured = [p for p in profiles if p["memory_mib"]]
    largest = max(measured, key=lambda p: int(p["memory_slices"]))
    return int(largest["memory_mib"]) // int(largest["memory_slices"])


def _profile(raw: dict[str, Any], slice_mib: int, estimated: frozenset[str]) -> Profile:
    return Profile(
        name=raw["name"],
        id=raw["id"],
        query_index=raw["query_index"],
        compute_slices=raw["compute_slices"],
        memory_slices=raw["memory_slices"],
        memory_mib=raw["memory_mib"] or slice_mib * raw["memory_slices"],
        multiprocessors=raw["sm"] or 0,
        max_instances=raw["max_instances"],
        starts=tuple(p["start"] for p in raw["placements"]),
        copy_engines=raw["copy_engines"],
        decoders=raw["decoders"],
        encoders=raw["encoders"],
        jpeg_engines=raw["jpeg"],
        ofa_engines=raw["ofa"],
        estimated=estimated,
    )
