"""The start of a replica that is profiled: its file, and the variables that lead there. Pure."""

from collections.abc import Mapping
from pathlib import Path

from agents.contract.documents import DesiredReplica
from agents.contract.profilers import Profiler

# Python imports a module of this name at its start.
HOOK_FILE = "sitecustomize.py"
HOOK_TEXT = Path(__file__).with_name("hook.py").read_text("utf-8")
PYTHON_PATH = "PYTHONPATH"
# The value that a container's own variable replaces; the hook adds it again.
IMAGE_PYTHON_PATH = "TESSERA_IMAGE_PYTHONPATH"


def profiler_files(replica: DesiredReplica) -> Mapping[str, str]:
    """The texts of files beside those of its launcher, by their names."""
    return {} if replica.profiler is Profiler.NONE else {HOOK_FILE: HOOK_TEXT}


def profiler_variables(replica: DesiredReplica, folder: Path) -> dict[str, str]:
    """`folder`: where its program finds these files."""
    if replica.profiler is Profiler.NONE:
        return {}
    paths = [str(folder), *filter(None, [replica.env.get(PYTHON_PATH)])]
    return {PYTHON_PATH: ":".join(paths)}


def image_paths(replica: DesiredReplica, env: Mapping[str, str]) -> dict[str, str]:
    """`env`: of its image. A request that sets the variable replaces it, as without a profiler."""
    path = env.get(PYTHON_PATH)
    if replica.profiler is Profiler.NONE or not path or PYTHON_PATH in replica.env:
        return {}
    return {IMAGE_PYTHON_PATH: path}
