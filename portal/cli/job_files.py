"""Which files of a job are meant, and where each is written. Nothing is written outside of that."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from portal.cli.client import Client, api_path
from portal.cli.exit_codes import CommandFailed, ExitCode

PAGE_FILES = 1_000
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TreeChoice:
    """Of which attempt and rank, and whether a checkpoint is meant; None: the newest."""

    checkpoint: bool = False
    attempt: int | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class FileTarget:
    """A file of a tree, and where it goes."""

    path: str
    size: int
    sha256: str
    executable: bool
    target: Path


def split_source(source: str) -> tuple[str, str]:
    """ "J-12:out/model.bin" as job and path; the path is empty for all files."""
    job, colon, path = source.partition(":")
    if not colon or not job:
        raise CommandFailed(
            "source_invalid",
            f"{source} names no files of a job: write JOB:PATH, or JOB: for all",
            "tessera cp J-12:model.bin .",
            ExitCode.USAGE,
        )
    return job, path


def chosen_tree(client: Client, job: str, choice: TreeChoice) -> Row:
    """The newest tree that is meant and whose files are there. Raises CommandFailed."""
    kind = "checkpoint" if choice.checkpoint else "output"
    trees = client.get(api_path("jobs", job, "trees"), hint="tessera ps -a")["results"]
    own = [tree for tree in trees if tree["kind"] == kind and _is_chosen(tree, choice)]
    found: Row | None = next((tree for tree in own if not tree["removed_at"]), None)
    if found:
        return found
    if own:
        sentence = f"The files of this {kind} were removed at {own[0]['removed_at']}"
    elif any(tree["kind"] == "checkpoint" for tree in trees) and not choice.checkpoint:
        sentence = f"{job} has no such output, but a checkpoint: add --checkpoint"
    else:
        sentence = f"{job} has no such {kind}"
    raise CommandFailed("not_found", sentence, f"tessera show {job}", ExitCode.NOT_FOUND)


def code_tree(client: Client, job: str) -> Row:
    """The code that the job ran. Raises CommandFailed."""
    found = client.get(api_path("jobs", job), hint="tessera ps -a")
    code = found["request"].get("code")
    if not code:
        hint = f"tessera show {job}"
        raise CommandFailed("not_found", f"{job} has no code", hint, ExitCode.NOT_FOUND)
    if "://" in code:
        sentence = f"The portal has no copy of the code of {job}: it is in {code}"
        raise CommandFailed("not_found", sentence, f"tessera show {job}", ExitCode.NOT_FOUND)
    return client.get(api_path("trees", code))  # type: ignore[no-any-return]


def tree_files(client: Client, tree: Row) -> list[Row]:
    """All files of the tree, by path."""
    rows: list[Row] = []
    after: int | None = 0
    while after is not None:
        page = client.get(
            api_path("trees", str(tree["id"]), "files"), after=after, limit=PAGE_FILES
        )
        rows += page["results"]
        after = page["next_after"]
    return rows


def file_targets(rows: Sequence[Row], path: str, destination: str) -> list[FileTarget]:
    """The file or folder at `path` (all files if it is empty), each with where it is written, as
    `cp -r` does. Raises CommandFailed."""
    wanted = path.strip("/")
    root = Path(destination)
    exact = [row for row in rows if row["path"] == wanted]
    if exact:
        is_folder = destination.endswith("/") or root.is_dir()
        name = PurePosixPath(wanted).name
        return [_target(exact[0], root / name if is_folder else root)]
    prefix = f"{wanted}/" if wanted else ""
    below = [row for row in rows if row["path"].startswith(prefix)]
    if not below:
        sentence = f"There is no file or folder {wanted!r} in it" if wanted else "It has no files"
        raise CommandFailed("not_found", sentence, "tessera files JOB", ExitCode.NOT_FOUND)
    folder = root / PurePosixPath(wanted).name if wanted else root
    return [_below(row, folder, row["path"].removeprefix(prefix)) for row in below]


def make_folders(targets: Iterable[FileTarget], destination: str) -> None:
    """The folders of all of them. Raises CommandFailed where a link leads elsewhere."""
    root = Path(destination)
    for target in targets:
        folder = target.target.parent
        for each in reversed([folder, *folder.parents]):
            if root in each.parents and each.is_symlink():
                sentence = f"{each} is a link: what is copied must not leave {destination}"
                raise CommandFailed("link_in_the_way", sentence, "", ExitCode.CONFLICT)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            sentence = f"{folder} cannot be made: {error.strerror}"
            raise CommandFailed("not_writable", sentence, "", ExitCode.CONFLICT) from error


def _below(row: Row, folder: Path, path: str) -> FileTarget:
    return _target(row, folder.joinpath(*path.split("/")))


def _target(row: Row, target: Path) -> FileTarget:
    path = str(row["path"])
    # The portal has checked it. So does who writes.
    parts = path.split("/")
    is_plain = not any(part in ("", ".", "..") or "\0" in part for part in parts)
    if not is_plain or (os.name == "nt" and any(character in path for character in '\\:<>"|?*')):
        sentence = f"{path[:80]!a} cannot be a file here"
        raise CommandFailed("path_invalid", sentence)
    return FileTarget(path, row["size"], row["sha256"], row["executable"], target)


def _is_chosen(tree: Row, choice: TreeChoice) -> bool:
    is_attempt = choice.attempt is None or tree["attempt"] == choice.attempt
    return is_attempt and bool(tree["rank"] == (choice.rank or 0))
