"""Sends a folder of code to a project: only the contents that it lacks, in chunks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from portal.cli.client import Client, api_path
from portal.cli.code_folder import CodeFile, CodeFolder
from portal.cli.exit_codes import CommandFailed, ExitCode
from portal.cli.progress import StatusLine

# As the portal has them.
MAX_FILE_CHUNK_BYTES, MAX_HAVE_FILES = 4 << 20, 1_000
# A chunk of another command that sends the same file came first: ask where the file goes on.
OFFSET_CODE = "file_offset"
MAX_OFFSETS = 100


def upload_code(client: Client, project: str, folder: CodeFolder) -> str:
    """The id of its tree. Raises CommandFailed; what has arrived by then is not sent again."""
    by_content = {(file.sha256, file.size): file for file in folder.files}
    missing = [
        (by_content[one["sha256"], one["size"]], int(one["received"]))
        for one in _progress(client, project, list(by_content.values()))
        if not one["complete"]
    ]
    line, total = StatusLine(), sum(file.size - received for file, received in missing)
    sent = 0
    try:
        for file, received in missing:
            for size in _send(client, project, file, received):
                sent += size
                percent = 100 * sent // total if total else 100
                text = f"Sending code: {percent} % of {total / (1 << 20):,.1f} MiB"
                line.show(text, key=percent // 25)
    finally:
        line.clear()
    files = [
        {"path": f.path, "sha256": f.sha256, "size": f.size, "executable": f.executable}
        for f in folder.files
    ]
    path = api_path("projects", project, "trees")
    return str(client.post(path, {"files": files}, is_repeatable=True)["id"])


def _progress(client: Client, project: str, files: Sequence[CodeFile]) -> list[Mapping[str, Any]]:
    """What the project has of each of them, with its size."""
    path = api_path("projects", project, "files", "have")
    found: list[Mapping[str, Any]] = []
    for start in range(0, len(files), MAX_HAVE_FILES):
        some = files[start : start + MAX_HAVE_FILES]
        body = {"files": [{"sha256": file.sha256, "size": file.size} for file in some]}
        results = client.post(path, body, is_repeatable=True)["results"]
        found += [row | {"size": file.size} for row, file in zip(results, some, strict=True)]
    return found


def _send(client: Client, project: str, file: CodeFile, received: int) -> Iterator[int]:
    """Yields the size of each chunk that has arrived."""
    path = api_path("projects", project, "files", file.sha256)
    with file.source.open("rb") as source:
        for _ in range(MAX_OFFSETS + file.size // MAX_FILE_CHUNK_BYTES):
            source.seek(received)
            data = source.read(MAX_FILE_CHUNK_BYTES)
            if received + len(data) > file.size or (not data and received < file.size):
                break
            try:
                row = client.put_bytes(path, data, size=file.size, offset=received)
            except CommandFailed as failed:
                if failed.code != OFFSET_CODE:
                    raise
                (row,) = _progress(client, project, [file])
            yield max(0, int(row["received"]) - received)
            received = int(row["received"])
            if row["complete"]:
                return
    sentence = f"{file.source} changed while it was sent"
    raise CommandFailed("file_changed", sentence, "the same command again", ExitCode.FAILURE)


def sync_sentence(folder: CodeFolder, tree: str) -> str:
    """What was sent, for people."""
    count = len(folder.files)
    text = (
        f"Code: {count} file{'s' if count > 1 else ''}, {folder.total_bytes / (1 << 20):,.1f} MiB"
    )
    if folder.left_out:
        shown = ", ".join(folder.left_out[:3]) + (", …" if len(folder.left_out) > 3 else "")
        text += f"; links and special files are not sent: {shown}"
    return f"{text} ({tree[:8]})"
