"""MIG profiles of a board that the table lacks, as the node reports them and the planner uses them.

The planner trusts a node about its own GPUs, but limits what a report may cost to plan with:
profiles beyond any board ever sold are left out, and the board is then only offered whole.
"""

from collections.abc import Iterable

from agents.contract.boards import Profile
from agents.contract.documents import ObservedProfile

# The boards of the table have at most 8 memory slices and 33 placements.
MAX_SLICES = 16
MAX_PLACEMENTS = 128


def observed_profile(profile: Profile) -> ObservedProfile:
    """The profile as the node reports it."""
    return ObservedProfile(
        name=profile.name,
        id=profile.id,
        query_index=profile.query_index,
        compute_slices=profile.compute_slices,
        size=profile.memory_slices,
        memory_mib=profile.memory_mib,
        multiprocessors=profile.multiprocessors,
        max_instances=profile.max_instances,
        starts=profile.starts,
    )


def plausible_profiles(profiles: Iterable[ObservedProfile]) -> tuple[Profile, ...]:
    """The reported profiles that a GPU can have, each name once; none if they have more than
    `MAX_PLACEMENTS` placements together."""
    found: dict[str, Profile] = {}
    for profile in profiles:
        if profile.name and _is_possible(profile):
            found.setdefault(profile.name, _profile(profile))
    if sum(len(profile.starts) for profile in found.values()) > MAX_PLACEMENTS:
        return ()
    return tuple(found.values())


def _is_possible(profile: ObservedProfile) -> bool:
    starts = profile.starts
    in_order = list(starts) == sorted(set(starts))
    return bool(starts) and in_order and starts[0] >= 0 and starts[-1] + profile.size <= MAX_SLICES


def _profile(profile: ObservedProfile) -> Profile:
    return Profile(
        name=profile.name,
        id=profile.id,
        query_index=profile.query_index,
        compute_slices=profile.compute_slices,
        memory_slices=profile.size,
        memory_mib=profile.memory_mib,
        multiprocessors=profile.multiprocessors,
        max_instances=profile.max_instances,
        starts=profile.starts,
    )
