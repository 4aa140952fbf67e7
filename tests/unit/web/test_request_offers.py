"""What the request page offers and draws, from values: memory sizes, times, a place."""

from dataclasses import replace

from django.utils import translation

from agents.contract.boards import known_boards
from portal.submission.planned_gpus import PERCENT, PlannedGpu, Span
from portal.web.request.device_kinds import unknown_row
from portal.web.request.memory_sizes import memory_sizes
from portal.web.request.place import request_place
from portal.web.request.time_limits import time_choices
from scheduler.core.availability.counts import Availability
from scheduler.core.request import RequestLimits


def test_a_board_that_reports_no_memory_has_no_size_and_breaks_no_page():
    board = known_boards()["H200-141GB"]
    nothing = replace(board, key="X", memory_mib=0, profiles=())
    assert memory_sizes([(nothing, Availability())]) == ()
    both = memory_sizes([(nothing, Availability()), (board, Availability())])
    assert both and both[-1].board == board


def test_the_time_that_was_typed_is_the_pressed_button_however_it_is_written():
    for typed in ("2h", "120", "2 hours", "两小时", "2:00", " 2h "):
        pressed = [
            choice.value for choice in time_choices(typed, RequestLimits()) if choice.is_chosen
        ]
        assert pressed == ["2h"], typed
    assert not any(choice.is_chosen for choice in time_choices("soon", RequestLimits()))


def test_an_amount_that_no_node_has_is_named_in_words():
    with translation.override("en"):
        assert unknown_row("mps").size == "MPS share"
        assert unknown_row("gpus:H200").size == "H200"


def test_a_place_on_several_nodes_is_drawn_node_by_node():
    whole = [Span(0, 8)]
    gpus = [PlannedGpu(node, index, 8, list(whole)) for node in ("n1", "n2") for index in (0, 1)]
    place = request_place(gpus)
    assert [(node.name, [row.name for row in node.rows]) for node in place.nodes] == [
        ("n1", ["GPU 0", "GPU 1"]),
        ("n2", ["GPU 0", "GPU 1"]),
    ]
    tops = [row.y for node in place.nodes for row in node.rows]
    assert tops == sorted(set(tops)) and place.height > tops[-1]
    assert request_place([]) is None


def test_a_share_is_told_as_large_as_it_is_though_the_drawing_ends_at_the_whole_gpu():
    others, own = Span(0, 80), Span(80, 20, threads=50)
    place = request_place([PlannedGpu("n1", 0, PERCENT, [own], [others])])
    assert "50\u00a0% for this job, 80\u00a0% of it in use by other jobs" in place.sentence
    ((row,),) = [node.rows for node in place.nodes]
    assert [block.part.label for block in row.blocks if block.part.is_own] == ["50\u00a0%"]
    assert max(block.x + block.width for block in row.blocks) <= place.width
