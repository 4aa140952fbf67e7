"""Parts of a machine's /proc, written below a folder."""

from pathlib import Path


def a_process(root: Path, pid: int, program: str, *opened: str) -> None:
    """A process with these files open."""
    home = root / "proc" / str(pid)
    (home / "fd").mkdir(parents=True)
    (home / "comm").write_text(f"{program}\n", "utf-8")
    for number, path in enumerate(opened):
        (home / "fd" / str(number)).symlink_to(path)


def capabilities(root: Path, minors: dict[str, int]) -> None:
    """More lines of the table of capabilities."""
    path = root / "proc/driver/nvidia-caps/mig-minors"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as table:
        table.writelines(f"{name} {minor}\n" for name, minor in minors.items())
