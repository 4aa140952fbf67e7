"""tessera files, cp and rm: what a job wrote, copied whole, and nothing beyond the folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import httpx
import pytest

from tests.unit.cli.fake_rest import Rest, a_row, problem

CONTENTS = {
    "model.bin": bytes(range(256)) * 20,
    "out/a.txt": b"a",
    "out/sub/run.sh": b"#!/bin/sh",
    "empty": b"",
}
TREE = {
    **{"id": "t-1", "kind": "output", "attempt": 1, "rank": 0, "removed_at": None},
}


def row(path: str, data: bytes, executable: bool = False) -> dict:
    digest = hashlib.sha256(data).hexdigest()
    return {"path": path, "sha256": digest, "size": len(data), "executable": executable}


def content_answer(request: httpx.Request) -> httpx.Response:
    data = CONTENTS[request.url.params["path"]]
    if "Range" not in request.headers:
        return httpx.Response(200, content=data)
    start = int(request.headers["Range"].removeprefix("bytes=").removesuffix("-"))
    return httpx.Response(206, content=data[start:])


def a_rest(*trees: dict, rows: list | None = None, content=content_answer) -> Rest:
    files = rows or [row(p, d, p.endswith(".sh")) for p, d in sorted(CONTENTS.items())]
    rest = Rest().on("GET", "jobs/J-12/trees", {"results": list(trees or (TREE,))})
    rest.on("GET", "trees/t-1/files", {"results": files, "next_after": None})
    return rest.on("GET", "trees/t-1/content", content)


def test_a_file_is_copied_into_a_folder_or_to_a_name(tmp_path):
    rest = a_rest()
    assert rest.run("cp", "J-12:model.bin", str(tmp_path)).exit_code == 0
    assert (tmp_path / "model.bin").read_bytes() == CONTENTS["model.bin"]
    rest.run("cp", "J-12:/model.bin", str(tmp_path / "mine.bin"))
    assert (tmp_path / "mine.bin").read_bytes() == CONTENTS["model.bin"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine.bin", "model.bin"]


def test_a_folder_keeps_its_name_and_all_files_need_none(tmp_path):
    rest = a_rest()
    rest.run("cp", "J-12:out", str(tmp_path))
    assert (tmp_path / "out/sub/run.sh").stat().st_mode & 0o111
    assert not (tmp_path / "out/a.txt").stat().st_mode & 0o111
    done = rest.run("cp", "J-12:", str(tmp_path / "all"))
    found = {
        str(p.relative_to(tmp_path / "all")): p.read_bytes()
        for p in (tmp_path / "all").rglob("*")
        if p.is_file()
    }
    assert found == CONTENTS
    assert "4 files, 0.0 MiB" in done.stderr
    again = rest.run("cp", "J-12:", str(tmp_path / "all"))
    assert "4 there already" in again.stderr


class CutStream(httpx.SyncByteStream):
    """Some bytes, and then the connection is gone."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __iter__(self) -> Iterator[bytes]:
        yield self.data
        raise httpx.ReadError("cut")


def cut_after(size: int):
    def answer(request: httpx.Request) -> httpx.Response:
        response = content_answer(request)
        stream = CutStream(response.content[:size])
        return httpx.Response(response.status_code, stream=stream)

    return answer


def test_a_cut_download_goes_on_where_it_was_cut(tmp_path):
    rest = a_rest()
    rest.on("GET", "trees/t-1/content", cut_after(1000), cut_after(700), content_answer)
    assert rest.run("cp", "J-12:model.bin", str(tmp_path)).exit_code == 0
    assert (tmp_path / "model.bin").read_bytes() == CONTENTS["model.bin"]
    asked = [call.headers.get("Range") for call in rest.sent("GET", "trees/t-1/content")]
    assert asked == [None, "bytes=1000-", "bytes=1700-"]


def test_a_command_that_was_ended_leaves_what_it_has_for_the_next(tmp_path):
    rest = a_rest()
    rest.on("GET", "trees/t-1/content", cut_after(1000), problem(404, "not_found"))
    assert rest.run("cp", "J-12:model.bin", str(tmp_path)).exit_code == 3
    assert not (tmp_path / "model.bin").exists()
    rest.on("GET", "trees/t-1/content", content_answer)
    assert rest.run("cp", "J-12:model.bin", str(tmp_path)).exit_code == 0
    assert rest.calls[-1].headers["Range"] == "bytes=1000-"
    assert [p.name for p in tmp_path.iterdir()] == ["model.bin"]


def test_a_busy_portal_is_waited_for(tmp_path):
    rest = a_rest()
    busy = problem(503, "store_unavailable")
    busy.headers["Retry-After"] = "5"
    rest.on("GET", "trees/t-1/content", busy, content_answer)
    assert rest.run("cp", "J-12:model.bin", str(tmp_path)).exit_code == 0
    assert rest.pauses == [5]


@pytest.mark.parametrize("wrong", [b"x" * 5120, bytes(9000)])
def test_bytes_that_are_not_the_file_are_not_kept(tmp_path, wrong):
    rest = a_rest(content=lambda _: httpx.Response(200, content=wrong))
    failed = rest.run("cp", "J-12:model.bin", str(tmp_path))
    assert failed.exit_code == 1 and "file_changed" in failed.stderr
    assert not (tmp_path / "model.bin").exists()


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "a//x", "."])
def test_a_portal_cannot_write_beyond_the_folder(tmp_path, path):
    rest = a_rest(rows=[row(path, b"x")])
    failed = rest.run("cp", "J-12:", str(tmp_path / "in"))
    assert failed.exit_code == 1 and "path_invalid" in failed.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_the_way_is_not_followed(tmp_path):
    outside, inside = tmp_path / "outside", tmp_path / "in"
    outside.mkdir(), inside.mkdir()
    (inside / "out").symlink_to(outside)
    failed = a_rest().run("cp", "J-12:out", str(inside))
    assert failed.exit_code == 5 and "is a link" in failed.stderr
    assert list(outside.iterdir()) == []


def test_a_link_at_the_place_of_a_file_is_replaced(tmp_path):
    (tmp_path / "outside").write_bytes(b"mine")
    (tmp_path / "model.bin").symlink_to(tmp_path / "outside")
    assert a_rest().run("cp", "J-12:model.bin", f"{tmp_path}/").exit_code == 0
    assert (tmp_path / "outside").read_bytes() == b"mine"
    assert (tmp_path / "model.bin").read_bytes() == CONTENTS["model.bin"]


@pytest.mark.parametrize(
    ("trees", "options", "said"),
    [
        ([TREE | {"kind": "checkpoint"}], (), "add --checkpoint"),
        ([TREE | {"removed_at": "2026-05-01T00:00:00Z"}], (), "were removed at 2026-05-01"),
        ([TREE], ("--attempt", "2"), "no such output"),
        ([TREE], ("--rank", "1"), "no such output"),
    ],
)
def test_what_is_not_there_is_said(tmp_path, trees, options, said):
    failed = a_rest(*trees).run("cp", *options, "J-12:model.bin", str(tmp_path))
    assert failed.exit_code == 3 and said in failed.stderr


def test_a_source_that_is_no_source_is_said(tmp_path):
    failed = a_rest().run("cp", "model.bin", str(tmp_path))
    assert failed.exit_code == 2 and "JOB:PATH" in failed.stderr
    missing = a_rest().run("cp", "J-12:no", str(tmp_path))
    assert missing.exit_code == 3 and "no file or folder 'no'" in missing.stderr


def test_files_are_listed_over_all_pages():
    pages = [
        {"results": [row("a", b"1")], "next_after": 1},
        {"results": [row("b", b"22")], "next_after": None},
    ]
    rest = a_rest(TREE | {"kind": "checkpoint"}).on("GET", "trees/t-1/files", *pages)
    shown = rest.run("files", "--checkpoint", "J-12", "-o", "name")
    assert shown.stdout.split() == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "tree"), [((), "t-1"), (("--checkpoint",), "t-2"), (("--code",), "t-3")]
)
def test_files_are_removed_after_a_question(options, tree):
    size = {"file_count": 2, "total_bytes": 3 << 20}
    trees = [TREE | size, TREE | size | {"id": "t-2", "kind": "checkpoint"}]
    rest = a_rest(*trees).on("GET", "jobs/J-12", a_row(request={"code": "t-3"}))
    rest.on("GET", "trees/t-3", TREE | size | {"id": "t-3", "kind": "code"})
    rest.on("DELETE", f"trees/{tree}", httpx.Response(204))
    refused = rest.run("rm", "J-12", *options, input="n\n")
    assert (refused.exit_code, "3.0 MiB?" in refused.stderr) == (1, True)
    done = rest.run("rm", "J-12", *options, "--yes")
    assert done.exit_code == 0 and "removed the" in done.output
    assert [call for call in rest.calls if call.method == "DELETE"]
