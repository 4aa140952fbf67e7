"""What nccl-tests print: runs on real machines, shortened, with other host names; and tables that
look like it."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from agents.launchers.pair_rounds import TITLE as PAIR_TITLE

FOLDER = Path(__file__).with_name("nccl_tables")
# 2 x 8 H100 with eight cards of 200 Gbit/s each (nccl-tests 2.13); 8 V100 (2.0).
TWO_NODES = (FOLDER / "two_nodes_h100.txt").read_text("utf-8")
OLD_ONE_NODE = (FOLDER / "old_one_node_v100.txt").read_text("utf-8")
HEADER = "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"


def a_table(busbw: float, *, wrong: int = 0, average: bool = True) -> str:
    """With one row of 1 GiB."""
    timing = f"6759.0  158.86  {busbw:.2f}      {wrong}"
    row = f"  1073741824     268435456     float     sum      -1   {timing}   {timing}\n"
    bounds = f"# Out of bounds values : {2 * wrong} {'FAILED' if wrong else 'OK'}\n"
    return HEADER + row + bounds + (f"# Avg bus bandwidth    : {busbw:.3f} \n" if average else "")


def pair_names(command: Sequence[str]) -> list[str]:
    """Of the pairs that this command of a check measures, in its order; of any other, none."""
    return [name for word in command if ":" in word for name in word.replace("/", ",").split(",")]


def pair_tables(tables: Iterable[tuple[str, str]]) -> str:
    """What such a command prints. `tables`: of each pair, its name and what was printed of it."""
    return "".join(f"{PAIR_TITLE} {name}\n{text}\n" for name, text in tables)
