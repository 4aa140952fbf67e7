"""The file of the Container Device Interface, which describes every device that an engine may pass
in.

It describes the devices of one moment, so it is generated again after each partition change (HAMi
#1903). The generator leaves out what it does not find, without an error, so what it wrote is read
before a device is given."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agents.host.programs import run_program

GENERATE_SECONDS = 60.0
FAILED = "cdi_failed"
# JSON is YAML too, so the file may be named either way.
ARGUMENTS = ("cdi", "generate", "--format=json", "--device-name-strategy=uuid")


class CdiSpec:
    """The file at `path`, which `program` (nvidia-ctk) generates.

    A new agent generates it once, since it does not know for which devices it was generated."""

    def __init__(self, program: str, path: str) -> None:
        self.program, self.path = program, path
        self._made_for: Mapping[str, frozenset[str]] | None = None
        self._names: frozenset[str] = frozenset()

    def is_stale(self, devices: Mapping[str, frozenset[str]]) -> bool:
        """Whether it was not generated for exactly these devices."""
        return self._made_for != devices

    def has_device(self, uuid: str) -> bool:
        return uuid in self._names

    def generate(self, devices: Mapping[str, frozenset[str]]) -> str:
        """Generate it for these devices, by UUID with the device nodes that each must bring.
        Returns why it is incomplete, or "".

        If that fails, devices that it described before still count as described."""
        self._made_for, self._names = None, self._names & frozenset(devices)
        result = run_program(GENERATE_SECONDS, self.program, *ARGUMENTS)
        if result.failure:
            return result.failure
        try:
            described = described_nodes(json.loads(result.output))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            return f"{self.program} did not print a CDI file: {error!r}"
        try:
            _replace(Path(self.path), result.output)
        except OSError as error:
            return f"{self.path} cannot be written: {error.strerror}"
        lacking = {uuid: _lacking(uuid, nodes, described) for uuid, nodes in devices.items()}
        self._names = frozenset(uuid for uuid, what in lacking.items() if not what)
        if missing := sorted(filter(None, lacking.values())):
            return f"{self.path} does not describe {', '.join(missing)}"
        self._made_for = dict(devices)
        return ""


def described_nodes(spec: Any) -> dict[str, frozenset[str]]:
    """The device nodes of each device in a CDI file. Raises if it is none."""
    return {
        device["name"]: frozenset(
            node["path"] for node in (device.get("containerEdits") or {}).get("deviceNodes") or ()
        )
        for device in spec["devices"]
    }


def _lacking(uuid: str, nodes: frozenset[str], described: Mapping[str, frozenset[str]]) -> str:
    """What the file does not say of a device; empty if nothing is missing."""
    if uuid not in described:
        return uuid
    missing = sorted(nodes - described[uuid])
    return f"{' and '.join(missing)} of {uuid}" if missing else ""


def _replace(path: Path, text: str) -> None:
    """An engine reads the file at any moment: it finds the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(text, "utf-8")
    part.chmod(0o644)
    part.replace(path)
