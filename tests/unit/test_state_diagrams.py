"""docs/state-machines.md is what the tables say, and the tables are whole."""

from pathlib import Path

from scheduler.core.model.diagrams import diagram, page
from scheduler.core.model.states import EDGES, JOB_EDGES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "state-machines.md"


def test_the_page_is_current():
    assert PAGE.read_text("utf-8") == page(), "run: python -m scheduler.core.model.diagrams"


def test_every_arrow_of_every_table_is_drawn_once():
    drawn = page().splitlines()
    for edges in EDGES.values():
        block = diagram(edges).splitlines()
        for old, targets in edges.items():
            assert all(block.count(f"    {old} --> {new}") == 1 for new in targets)
        assert set(block) <= {*drawn, ""}


def test_final_states_lead_out():
    finals = [state for state, targets in JOB_EDGES.items() if not targets]
    assert len(finals) == 4
    assert all(f"    {state} --> [*]" in diagram(JOB_EDGES) for state in finals)
