"""Known container escapes and the versions that fixed them.

Sources: NVIDIA security bulletins of the container toolkit; opencontainers/runc security
advisories and CHANGELOG. CVE-2026-24260 of the toolkit (July 2026) is missing because the version
that fixes it is not known.
"""

from dataclasses import dataclass

from agents.doctor.versions import Version


@dataclass(frozen=True, slots=True)
class Escape:
    """One or more CVEs that the same releases fixed."""

    cves: tuple[str, ...]
    # The first fixed version of each series, oldest series first. Older series have no fix; newer
    # ones were never vulnerable.
    fixed_in: tuple[str, ...]
    # Not an escape on its own.
    is_low_severity: bool = False

    def is_open_in(self, version: Version) -> bool:
        """Whether upstream's `version` is vulnerable."""
        fixes = [Version(fix) for fix in self.fixed_in]
        if version.series > fixes[-1].series:
            return False
        return not any(fix.series == version.series and version >= fix for fix in fixes)


RUNC_ESCAPES = (
    Escape(("CVE-2024-21626",), ("1.1.12", "1.2.0-rc.1")),
    Escape(
        ("CVE-2025-31133", "CVE-2025-52565", "CVE-2025-52881"), ("1.2.8", "1.3.3", "1.4.0-rc.3")
    ),
    Escape(("CVE-2026-41579",), ("1.3.6", "1.4.3", "1.5.0-rc.3"), is_low_severity=True),
)
RUNC_RECOMMENDED = "1.3.6"

TOOLKIT_ESCAPES = (
    Escape(("CVE-2024-0132", "CVE-2024-0133"), ("1.16.2",)),
    Escape(("CVE-2024-0134",), ("1.17.0",)),
    Escape(("CVE-2024-0135", "CVE-2024-0136", "CVE-2024-0137"), ("1.17.3",)),
    Escape(("CVE-2025-23359",), ("1.17.4",)),
    Escape(("CVE-2025-23266", "CVE-2025-23267"), ("1.17.8",)),
)
# Older versions have no known escape, but lack the isolation of 1.18 (update-ldcache) and the fix
# of 1.18.2 (NVIDIA_VISIBLE_DEVICES=none gave all GPUs in one path). Source: its release notes.
TOOLKIT_RECOMMENDED = "1.19.0"


def open_escapes(escapes: tuple[Escape, ...], version: Version) -> tuple[Escape, ...]:
    return tuple(escape for escape in escapes if escape.is_open_in(version))


def cve_names(escapes: tuple[Escape, ...]) -> tuple[str, ...]:
    return tuple(name for escape in escapes for name in escape.cves)
