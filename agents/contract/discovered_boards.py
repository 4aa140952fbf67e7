"""Profiles of a board that no table has, on their way from its driver to the planner.

A node is believed about its own GPUs, not about how much work its words may make: what is beyond
any board that was ever sold is left out, and the board is then given whole.
"""

from collections.abc import Iterable

from agents.contract.boards import Profile
from agents.contract.documents import ObservedProfile

# The boards of the table have at most 8 memory slices and 33 placements.
MAX_SLICES = 16
MAX_PLACEMENTS = 128


def observed_profile(profile: Profile) -> ObservedProfile:
    """As the node tells it."""
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
    """For planning: those that a GPU can have, each name and id once; none where they are too many
    together."""
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
