"""The code that is mutated, by area, and the tests that have to notice."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
# `contract`: an agent against the simulated driver, the integration level of `agents/`.
LEVELS = ("unit", "property", "integration", "contract")
# An area takes the files that no area before it has.
AREAS = {
    "committer": ("scheduler/commit/*.py",),
    "lifecycle": ("portal/jobs/lifecycle.py",),
    "quota": ("scheduler/core/quota/*.py", "portal/quotas/*.py"),
    "sync": ("portal/agentapi/sync.py", "agents/portal/sync.py"),
    "carver": ("agents/partitioning/*.py",),
    "reconcile": ("agents/loop/*.py",),
    "availability": ("portal/availability/*.py", "scheduler/core/availability/*.py"),
    "planner": ("scheduler/core/**/*.py",),
}
# Wiring and pages of Django's admin: declarations.
NOT_MUTATED = ("__init__.py", "admin.py", "apps.py")


def area_files(root: Path = REPOSITORY) -> dict[str, list[str]]:
    """The files of each area, relative to `root`."""
    taken: set[str] = set()
    files: dict[str, list[str]] = {}
    for area, patterns in AREAS.items():
        found = {str(p.relative_to(root)) for pattern in patterns for p in root.glob(pattern)}
        files[area] = sorted(f for f in found - taken if Path(f).name not in NOT_MUTATED)
        taken |= found
    return files
