"""What installing and removing the service writes and runs, as steps that can be shown first.

Each step can be repeated: a file that stands as it should is left alone."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agents.host.programs import run_program
from agents.host.service_manager import SYSTEMD_RUNS
from agents.service.unit import NAME, environment_values

UNIT = Path("etc/systemd/system") / NAME
ENVIRONMENT = Path("etc/tessera/agent.env")
ENABLED = Path("etc/systemd/system/multi-user.target.wants") / NAME
SYSTEMCTL_SECONDS = 120.0


class InstallationFailed(Exception):
    """Why a step failed."""


def systemctl(*words: str) -> None:
    """Raises InstallationFailed."""
    if failure := run_program(SYSTEMCTL_SECONDS, "systemctl", *words).failure:
        raise InstallationFailed(failure)


@dataclass(frozen=True, slots=True)
class ServiceFile:
    """A file with its text and its mode."""

    path: Path
    text: str
    mode: int

    def is_current(self) -> bool:
        try:
            is_same = self.path.read_text("utf-8") == self.text
            return is_same and self.path.stat().st_mode & 0o777 == self.mode
        except (OSError, ValueError):
            return False

    def write(self) -> None:
        """Atomically, and never readable by more users than `mode` allows."""
        _make_parents(self.path)
        part = self.path.with_name(f".{self.path.name}.part")
        part.unlink(missing_ok=True)
        part.touch(mode=0o600)
        part.write_text(self.text, "utf-8")
        part.chmod(self.mode)
        part.replace(self.path)


@dataclass(frozen=True, slots=True)
class ServiceInstallation:
    """The service below `root`. On the running machine, `/`, systemctl runs as well; below another
    root, such as the image of a machine, the unit is only enabled."""

    root: Path
    control: Callable[..., None] = systemctl

    @property
    def is_live(self) -> bool:
        return self.root == Path("/")

    def has_systemd(self) -> bool:
        return not self.is_live or (self.root / SYSTEMD_RUNS.relative_to("/")).is_dir()

    def environment_path(self) -> Path:
        """As the service sees it."""
        return Path("/") / ENVIRONMENT

    def files(self, unit: str, environment: str) -> tuple[ServiceFile, ...]:
        return (
            # First: a unit never stands without what it reads.
            ServiceFile(self.root / ENVIRONMENT, environment, 0o600),
            ServiceFile(self.root / UNIT, unit, 0o644),
        )

    def install(self, files: tuple[ServiceFile, ...], *, start: bool) -> list[str]:
        """Write, enable and start. Returns what was done. Raises InstallationFailed."""
        stale = [file for file in files if not file.is_current()]
        done = [f"written    {file.path}" for file in stale]
        done += [f"unchanged  {file.path}" for file in files if file not in stale]
        try:
            for file in stale:
                file.write()
            if not self.is_live:
                return [*done, *self._link()]
        except OSError as error:
            raise InstallationFailed(f"{error.filename}: {error.strerror}") from error
        return [*done, *self._run(self.commands(is_changed=bool(stale), start=start))]

    def commands(self, *, is_changed: bool, start: bool) -> list[tuple[str, ...]]:
        """Arguments of systemctl. A service that runs with these files is not touched."""
        found: list[tuple[str, ...]] = [("daemon-reload",)] if is_changed else []
        found.append(("enable", NAME))
        if start:
            found.append(("restart" if is_changed else "start", NAME))
        return found

    def uninstall(self) -> list[str]:
        """Stop it and remove what `install` wrote. What runs on the node goes on. Returns what was
        done. Raises InstallationFailed."""
        present, done = self.present_paths(), list[str]()
        if self.is_live and (self.root / UNIT).exists():
            done += self._run([("disable", "--now", NAME)])
        try:
            for at in present:
                at.unlink(missing_ok=True)
        except OSError as error:
            raise InstallationFailed(f"{error.filename}: {error.strerror}") from error
        done += [f"removed    {at}" for at in present]
        return [*done, *(self._run([("daemon-reload",)]) if self.is_live else [])]

    def present_paths(self) -> list[Path]:
        """What is there of an installation."""
        paths = (self.root / UNIT, self.root / ENVIRONMENT, self.root / ENABLED)
        return [at for at in paths if at.is_symlink() or at.exists()]

    def stored_variable(self, name: str) -> str:
        """Its value in the environment file that stands there; empty if it has none."""
        try:
            text = (self.root / ENVIRONMENT).read_text("utf-8")
        except (OSError, ValueError):
            return ""
        return environment_values(text).get(name, "")

    def _link(self) -> list[str]:
        """What `systemctl enable` does, for a machine that does not run."""
        link = self.root / ENABLED
        if link.is_symlink():
            return []
        _make_parents(link)
        link.symlink_to(f"../{NAME}")
        return [f"enabled    {link}"]

    def _run(self, commands: list[tuple[str, ...]]) -> list[str]:
        for words in commands:
            self.control(*words)
        return [f"ran        systemctl {' '.join(words)}" for words in commands]


def _make_parents(path: Path) -> None:
    """With the modes of a system's own folders, whatever the umask."""
    for folder in reversed(path.parents):
        if not folder.exists():
            folder.mkdir()
            folder.chmod(0o755)
