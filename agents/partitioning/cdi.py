"""The file of the Container Device Interface, which names every device that an engine may pass in.

It describes the devices of one moment, so it is generated again after each partition change (HAMi
#1903)."""

from pathlib import Path

from agents.host.programs import program_failure

GENERATE_SECONDS = 60.0
FAILED = "cdi_failed"


class CdiSpec:
    """The file at `path`, which `program` (nvidia-ctk) generates.

    A new agent generates it once, since it does not know for which devices it was generated."""

    def __init__(self, program: str, path: str) -> None:
        self.program, self.path = program, path
        self._made_for: frozenset[str] | None = None
        self._names: frozenset[str] = frozenset()

    def is_stale(self, uuids: frozenset[str]) -> bool:
        """Whether it was not generated for exactly these devices."""
        return self._made_for != uuids

    def has_device(self, uuid: str) -> bool:
        return uuid in self._names

    def generate(self, uuids: frozenset[str]) -> str:
        """Generate it for these devices. Returns why it is incomplete, or "".

        If that fails, devices that it named before still count as named."""
        self._made_for, self._names = None, self._names & uuids
        arguments = (f"--output={self.path}", "--device-name-strategy=uuid")
        if why := program_failure(GENERATE_SECONDS, self.program, "cdi", "generate", *arguments):
            return why
        try:
            text = Path(self.path).read_text("utf-8")
        except (OSError, ValueError) as error:
            return f"{self.path} cannot be read: {error}"
        self._names = frozenset(uuid for uuid in uuids if uuid in text)
        if missing := sorted(uuids - self._names):
            return f"{self.path} does not name {', '.join(missing)}"
        self._made_for = uuids
        return ""
