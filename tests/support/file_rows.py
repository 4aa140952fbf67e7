"""Files of jobs as rows and bytes, without a node that sends them."""

from collections.abc import Mapping

from agents.contract.file_transfer import FileContent, TreeKind
from portal.files.models import CodeOrigin, Tree
from portal.files.receiving import FileChunk, chunk_append, file_check
from portal.files.services import code_commit, tree_commit
from portal.jobs.models import Replica
from tests.support.file_calls import sha256, tree_files


def contents_store(project_id: int, contents: Mapping[str, bytes]) -> None:
    """All of them, whole."""
    for data in contents.values():
        content = FileContent(sha256(data), len(data))
        assert file_check(chunk_append(FileChunk(project_id, content, 0, data))).complete


def a_tree(
    replica: Replica,
    contents: Mapping[str, bytes],
    kind: TreeKind = TreeKind.OUTPUT,
    step: int = 0,
) -> Tree:
    """What the replica wrote, by path."""
    contents_store(replica.attempt.job.project_id, contents)
    return tree_commit(replica=replica, kind=kind, files=tree_files(contents), step=step)


def a_code_tree(project_id: int, contents: Mapping[str, bytes], creator: str) -> Tree:
    contents_store(project_id, contents)
    return code_commit(
        project_id=project_id,
        files=tree_files(contents),
        creator=creator,
        origin=CodeOrigin.FOLDER,
    )
