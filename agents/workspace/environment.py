"""The variables by which programs and libraries find a replica's folders and its user. Pure."""

from pathlib import Path

from agents.contract.documents import DesiredReplica
from agents.workspace.folders import ReplicaFolders
from agents.workspace.job_user import login_name


def has_code(replica: DesiredReplica) -> bool:
    """Whether its code folder is its own to start in: code that was sent, or of a repository."""
    return bool(replica.code_tree or replica.code_git)


def usual_variables(replica: DesiredReplica, folders: ReplicaFolders) -> dict[str, str]:
    """What programs expect of any machine; a request may set them otherwise.

    Those of an image give way: they often name a home of the image's own user."""
    name, caches = login_name(replica.user), folders.scratch / ".cache"
    return {
        "HOME": str(folders.scratch),
        "USER": name,
        "LOGNAME": name,
        "TMPDIR": str(folders.temporary),
        "XDG_CACHE_HOME": str(caches),
        "HF_HOME": str(caches / "huggingface"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "torchinductor"),
    }


def folder_variables(replica: DesiredReplica, folders: ReplicaFolders) -> dict[str, str]:
    """Tessera's own, which nobody else sets."""
    code = {"TESSERA_CODE_DIR": str(folders.code)} if has_code(replica) else {}
    return code | {
        "TESSERA_OUTPUT_DIR": str(folders.output),
        "TESSERA_CHECKPOINT_DIR": str(folders.checkpoint),
        "TESSERA_METRICS_FILE": str(folders.metrics_file),
    }


def start_folder(replica: DesiredReplica, folders: ReplicaFolders) -> Path:
    """Where its program starts: in the code that its request names, else at home."""
    return folders.code if has_code(replica) else folders.scratch
