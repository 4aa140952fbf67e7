"""A table of every legal layout of a board, computed once; each query is then a look-up.

A layout is a set of placements that the rules of `geometry` allow together. A seven-slice board has
2,319 of them (723 of plain profiles), a four-slice one 84 to 1,249. The table maps each, as a bit
mask over the board's placements, to its `FreePlacements`. The planner, the pages and the agent use
the same table. A layout that a driver reports although our rules forbid it is computed by the same
rules on its first query.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import accumulate, combinations, islice

from agents.contract.boards import Board, Profile, known_boards
from agents.contract.geometry import Placement, is_legal, occupied_mask, placements

# A discovered board with more layouts than this has no table: each layout is computed when it is
# first needed. The largest known board has 2,319.
MAX_LAYOUTS = 20_000
CACHE_SIZE = 16_384


@dataclass(frozen=True, slots=True)
class FreePlacements:
    """The placements that one layout leaves possible."""

    # Where one more instance can be created, in order of start; every profile has a key.
    by_profile: Mapping[str, tuple[Placement, ...]]
    # The same for all plain profiles together, larger first.
    plain: tuple[Placement, ...]
    # How many more instances of each profile can be created together.
    max_count: Mapping[str, int]
    # The sum of size * size over `plain`, in square memory slices; more of it left is better.
    room_score: int
    _bits: int = field(repr=False)


@dataclass(frozen=True, slots=True)
class LayoutChange:
    """Idle placements to delete, then placements to create; both in order of start."""

    deletes: tuple[Placement, ...]
    creates: tuple[Placement, ...]

    @property
    def deleted_slices(self) -> int:
        """Memory slices of the instances to delete."""
        return sum(place.size for place in self.deletes)


class LayoutTable:
    """The table of one board. Use `layout_table`, which builds it once."""

    def __init__(self, board: Board) -> None:
        self.board = board
        # Larger first, so that a mask lists its placements in the order of `FreePlacements.plain`.
        ranked = sorted(board.profiles, key=lambda p: (*_rank(p), p.id))
        self._spots = [(profile, place) for profile in ranked for place in placements(profile)]
        self._bit = {place: 1 << i for i, (_, place) in enumerate(self._spots)}
        self._of = {p.name: self._mask(p) for p in ranked}
        self._plain = self._mask(*(p for p in ranked if not p.has_media_extensions))
        self._larger = {
            p.name: self._plain & self._mask(*(q for q in ranked if _rank(q) < _rank(p)))
            for p in ranked
        }
        self._places = lru_cache(CACHE_SIZE)(self._listed)
        self._computed = lru_cache(CACHE_SIZE)(self._compute)
        self._settled = lru_cache(CACHE_SIZE)(self._settle)
        self._cheapest = lru_cache(CACHE_SIZE)(self._search)
        found = dict(islice(self._walk(0, 0, ()), MAX_LAYOUTS + 1))
        self.is_complete = len(found) <= MAX_LAYOUTS
        self._free = found if self.is_complete else {}

    def __len__(self) -> int:
        """The number of legal layouts, the empty one included; 0 without a table."""
        return len(self._free)

    def __iter__(self) -> Iterator[tuple[Placement, ...]]:
        """Every legal layout, larger placements first."""
        return (self._places(bits) for bits in self._free)

    def is_legal(self, layout: Iterable[Placement]) -> bool:
        """Whether the whole layout can exist on the board at once."""
        layout = tuple(layout)
        if not self.is_complete:
            return is_legal(self.board, layout)
        return self._bits(layout) in self._free

    def free_beside(self, taken: Iterable[Placement]) -> FreePlacements:
        """What can still be created beside `taken`, whether `taken` itself is legal or not.

        Raises ValueError for a profile that the board lacks.
        """
        taken = tuple(taken)
        bits = self._bits(taken)
        known = self._free.get(bits) if bits is not None else None
        return known or self._computed(tuple(sorted(taken)))

    def larger_lost(self, taken: Iterable[Placement], place: Placement) -> tuple[Placement, ...]:
        """Larger plain placements that `place` would make impossible beside `taken`, largest first.

        Larger means more memory slices, or as many and more compute slices. Raises ValueError if
        `place` cannot be created beside `taken`.
        """
        taken = tuple(taken)
        before = self.free_beside(taken)
        if place not in before.by_profile.get(place.profile, ()):
            raise ValueError(f"{place} cannot be created beside what is on the {self.board.key}")
        lost = before._bits & ~self.free_beside((*taken, place))._bits
        return self._places(lost & self._larger[place.profile])

    def make_room(
        self,
        taken: Iterable[Placement],
        profile: str,
        *,
        in_use: Iterable[Placement] = (),
        count: int = 1,
    ) -> LayoutChange | None:
        """The cheapest change of `taken` that creates `count` of `profile`; None if impossible.

        Nothing in `in_use`, a part of `taken`, is deleted. Cheapest means: fewest deletions, then
        fewest memory slices deleted, then the highest room score afterwards. Raises ValueError for
        a profile or a placement that the board lacks, for a placement that occurs twice, for an
        `in_use` that is not part of `taken`, and for a count below 1.
        """
        bits, kept = self._bits(taken), self._bits(in_use)
        if bits is None or kept is None or kept & ~bits:
            raise ValueError(f"no layout of the {self.board.key}, or in use but not taken")
        if profile not in self._of or count < 1:
            raise ValueError(f"{count} of {profile}: not possible on the {self.board.key}")
        return self._cheapest(bits, kept, profile, count)

    def _search(self, bits: int, in_use: int, profile: str, count: int) -> LayoutChange | None:
        if self._at(in_use).max_count[profile] < count:
            return None
        idle = self._places(bits & ~in_use)
        ones = [self._bit[place] for place in idle]
        for number in range(self._fewest(bits, idle, profile, count), len(idle) + 1):
            kept = [bits - sum(drop) for drop in combinations(ones, number)]
            if fitting := [keep for keep in kept if self._at(keep).max_count[profile] >= count]:
                return self._best(bits, fitting, profile, count)
        raise AssertionError("what is in use leaves room, so deleting every idle placement does")

    def _fewest(self, bits: int, idle: tuple[Placement, ...], profile: str, count: int) -> int:
        """Fewer deletions cannot free enough memory slices."""
        taken = occupied_mask(self._places(bits)).bit_count()
        gap = count * self._places(self._of[profile])[0].size + taken - self.board.memory_slices
        freed = list(accumulate(sorted((p.size for p in idle), reverse=True), initial=0))
        return next((number for number, slices in enumerate(freed) if slices >= gap), len(idle))

    def _best(self, bits: int, kept: list[int], profile: str, count: int) -> LayoutChange:
        """The best of what may be kept: fewest slices lost, highest room score, lowest starts."""
        lost = {keep: sum(p.size for p in self._places(bits & ~keep)) for keep in kept}
        least = min(lost.values())
        options = []
        for keep in (keep for keep in kept if lost[keep] == least):
            left, makes = self._settled(keep, profile, count)
            options.append((-left, tuple(sorted(self._places(bits & ~keep))), makes))
        _, deletes, makes = min(options)
        return LayoutChange(deletes, makes)

    def _settle(self, kept: int, profile: str, count: int) -> tuple[int, tuple[Placement, ...]]:
        """The room score after the best way to create `count` beside `kept`, and that way."""
        found = []
        for makes in combinations(self._at(kept).by_profile[profile], count):
            if _disjoint(makes):
                bits = kept | self._sum(makes)
                found.append((-self._at(bits).room_score, tuple(sorted(makes))))
        left, best = min(found)
        return -left, best

    def _at(self, bits: int) -> FreePlacements:
        return self._free.get(bits) or self._computed(tuple(sorted(self._places(bits))))

    def _bits(self, layout: Iterable[Placement]) -> int | None:
        """The mask of a layout; None if a placement is not the board's, or occurs twice."""
        bits = 0
        for place in layout:
            bit = self._bit.get(place, 0)
            if not bit or bits & bit:
                return None
            bits |= bit
        return bits

    def _sum(self, places: Iterable[Placement]) -> int:
        return sum(self._bit[place] for place in places)

    def _listed(self, bits: int) -> tuple[Placement, ...]:
        return tuple(place for _, place in self._spots if bits & self._bit[place])

    def _mask(self, *profiles: Profile) -> int:
        return sum(self._bit[place] for profile, place in self._spots if profile in profiles)

    def _walk(
        self, first: int, bits: int, taken: tuple[Placement, ...]
    ) -> Iterator[tuple[int, FreePlacements]]:
        """The layout, and every layout that extends it by placements from number `first` on."""
        room = self._compute(taken)
        yield bits, room
        for number in range(first, len(self._spots)):
            profile, place = self._spots[number]
            if place in room.by_profile[profile.name]:
                yield from self._walk(number + 1, bits | 1 << number, (*taken, place))

    def _compute(self, taken: tuple[Placement, ...]) -> FreePlacements:
        """The rules of `geometry`, on masks."""
        mask, compute, counts = 0, self.board.compute_slices, dict.fromkeys(self._of, 0)
        for place in taken:
            profile = self.board.profile(place.profile)
            if profile is None:
                raise ValueError(f"{self.board.key} has no profile {place.profile}")
            mask |= place.mask
            compute -= profile.compute_slices
            counts[profile.name] += 1
        free, most, bits = {}, {}, 0
        for profile in self.board.profiles:
            name, number = profile.name, profile.max_instances - counts[profile.name]
            number = min(number, compute // max(1, profile.compute_slices))
            here = [p for p in self._places(self._of[name]) if number > 0 and not p.mask & mask]
            bits |= self._sum(here)
            free[name], most[name] = tuple(here), max(0, min(number, _max_disjoint(here)))
        fits = self._places(bits & self._plain)
        return FreePlacements(free, fits, most, sum(p.size * p.size for p in fits), bits)


def layout_table(board: Board) -> LayoutTable:
    """The board's table, cached: by the key of a known board, by value of a discovered one."""
    known = known_boards().get(board.key)
    return _of_known(board.key) if known is board else _of_discovered(board)


@cache
def _of_known(key: str) -> LayoutTable:
    return LayoutTable(known_boards()[key])


@lru_cache(64)
def _of_discovered(board: Board) -> LayoutTable:
    return LayoutTable(board)


def _rank(profile: Profile) -> tuple[int, int]:
    """Larger profiles sort first."""
    return -profile.memory_slices, -profile.compute_slices


def _disjoint(places: Iterable[Placement]) -> bool:
    mask = 0
    for place in places:
        if place.mask & mask:
            return False
        mask |= place.mask
    return True


def _max_disjoint(places: Iterable[Placement]) -> int:
    """The largest number of disjoint placements, all of one size: always take what ends first."""
    number, end = 0, 0
    for place in sorted(places):
        if place.start >= end:
            number, end = number + 1, place.start + place.size
    return number
