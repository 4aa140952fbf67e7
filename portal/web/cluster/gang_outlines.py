"""A gang on neighbouring whole GPUs is drawn as one block with joints."""

from dataclasses import replace

from portal.web.cluster.cell import Block

Blocks = tuple[Block, ...]


def joined_gangs(rows: list[Blocks]) -> list[Blocks]:
    """The blocks of each GPU, in order: a run of whole GPUs that one known job holds becomes one
    block of the first row."""
    found = list(rows)
    first = 0
    while first < len(rows):
        end = first + 1
        while end < len(rows) and _is_one(rows[first], rows[end]):
            end += 1
        if end > first + 1:
            found[first] = (replace(rows[first][0], rows=end - first),)
            found[first + 1 : end] = [()] * (end - first - 1)
        first = end
    return found


def _is_one(one: Blocks, other: Blocks) -> bool:
    if len(one) != 1 or len(other) != 1:
        return False
    a, b = one[0], other[0]
    return a.is_held and bool(a.job) and a.size == a.of and (a.href, b.size) == (b.href, b.of)
