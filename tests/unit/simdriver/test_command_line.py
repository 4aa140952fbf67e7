"""`python -m agents.simdriver`: makes a node, shows one, and says in one sentence what is wrong."""

import json

import pytest

from agents.contract.boards import known_boards
from agents.simdriver.__main__ import main
from agents.simdriver.layouts import LAYOUTS


def refused(capsys, *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    assert ended.value.code not in (0, None)
    said = capsys.readouterr()
    assert said.out == ""
    return said.err if isinstance(ended.value.code, int) else str(ended.value.code)


def created(capsys, path, *options: str) -> dict:
    assert main(["create", "--path", str(path), *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_node_is_made_with_its_board_and_number_of_gpus(capsys, tmp_path):
    path = tmp_path / "nodes" / "a" / "driver.json"
    node = created(capsys, path, "--board", "A30-24GB", "--gpus", "3")
    assert [gpu["board"] for gpu in node["gpus"]] == ["A30-24GB"] * 3
    assert json.loads(path.read_text()) == node


def test_what_was_made_is_what_is_shown(capsys, tmp_path):
    path = tmp_path / "driver.json"
    node = created(capsys, path)
    assert main(["show", "--path", str(path)]) == 0
    assert json.loads(capsys.readouterr().out) == node


def test_one_seed_gives_the_same_uuids_and_another_seed_others(capsys, tmp_path):
    def uuids(name: str, *options: str) -> list[str]:
        node = created(capsys, tmp_path / name, "--gpus", "2", *options)
        return [gpu["uuid"] for gpu in node["gpus"]]

    assert uuids("a", "--seed", "5") == uuids("b", "--seed", "5")
    assert len({*uuids("c", "--seed", "5"), *uuids("d", "--seed", "6"), *uuids("e")}) == 6


def test_latency_can_be_left_out(capsys, tmp_path):
    slow = created(capsys, tmp_path / "a")
    quick = created(capsys, tmp_path / "b", "--latency", "off")
    assert slow["create_seconds"] > 0 and slow["mode_seconds"] > 0
    assert quick["create_seconds"] == quick["mode_seconds"] == quick["destroy_seconds"] == 0


@pytest.mark.parametrize("board", sorted(known_boards()))
def test_every_board_of_the_table_can_be_made(capsys, tmp_path, board):
    node = created(capsys, tmp_path / "driver.json", "--board", board, "--gpus", "1")
    assert node["gpus"][0]["board"] == board


@pytest.mark.parametrize("gpus", ["0", "17", "-1", "many", "1.5"])
def test_a_number_of_gpus_outside_1_to_16_is_refused(capsys, tmp_path, gpus):
    path = tmp_path / "driver.json"
    assert "--gpus" in refused(capsys, "create", "--path", path, "--gpus", gpus)
    assert not path.exists()


def test_an_unknown_board_is_refused_with_the_known_ones(capsys, tmp_path):
    said = refused(capsys, "create", "--path", tmp_path / "x", "--board", "H300")
    assert "H300" in said and "H200-141GB" in said


def test_the_path_and_the_command_have_to_be_named(capsys):
    assert "--path" in refused(capsys, "create")
    assert "create|show|inject" in refused(capsys)


def test_showing_what_was_never_made_says_how_to_make_it(capsys, tmp_path):
    said = refused(capsys, "show", "--path", tmp_path / "nobody.json")
    assert "nobody.json" in said and "create" in said


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"gpus": 3}', '{"seed": 1, "gpus": [{}]}'])
def test_showing_a_file_that_is_no_node_says_so(capsys, tmp_path, text):
    path = tmp_path / "driver.json"
    path.write_text(text)
    assert "driver.json" in refused(capsys, "show", "--path", path)


def test_a_place_that_cannot_be_written_is_told(capsys, tmp_path):
    (tmp_path / "file").touch()
    assert "file" in refused(capsys, "create", "--path", tmp_path / "file" / "driver.json")


def test_a_node_that_exists_is_not_made_again_over_its_instances(capsys, tmp_path):
    path = tmp_path / "driver.json"
    created(capsys, path, "--gpus", "2")
    before = path.read_bytes()
    assert "exists" in refused(capsys, "create", "--path", path, "--gpus", "4")
    assert path.read_bytes() == before


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS.values() if layout.gpus])
def test_a_layout_brings_its_board_and_its_number_of_gpus(capsys, tmp_path, layout):
    node = created(capsys, tmp_path / "driver.json", "--layout", layout.name)
    assert node["layout"] == layout.name
    assert [gpu["board"] for gpu in node["gpus"]] == [layout.board] * layout.gpus
    assert [gpu["numa_node"] for gpu in node["gpus"]] == [p.numa for p in layout.places]


@pytest.mark.parametrize("other", [["--gpus", "3"], ["--board", "A30-24GB"]])
def test_another_board_or_number_than_the_layouts_is_refused(capsys, tmp_path, other):
    path = tmp_path / "driver.json"
    said = refused(capsys, "create", "--path", path, "--layout", "h200-nvswitch-8", *other)
    assert "8 x H200-141GB" in said
    assert not path.exists()
