"""Files of others that browsers get are the ones that the list names, each with its licence."""

import hashlib
import re
from pathlib import Path

from portal.settings.base import PORTAL_FOLDER

VENDOR = Path(PORTAL_FOLDER) / "static" / "vendor"
ROW = re.compile(r"\| `(\S+)` \| (@\S+ [\d.]+), (\S+) \| (\S+) \| `([0-9a-f]{64})` \|")


def test_each_file_is_listed_with_its_digest_and_no_other_is_there():
    rows = ROW.findall((VENDOR / "README.md").read_text("utf-8"))
    listed = {name: digest for name, _, _, _, digest in rows}
    there = {str(path.relative_to(VENDOR)): path for path in VENDOR.rglob("*") if path.is_file()}
    del there["README.md"]
    assert listed == {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in there.items()
    }


def test_every_package_has_its_licence_beside_it():
    rows = ROW.findall((VENDOR / "README.md").read_text("utf-8"))
    licensed = {package for _, package, source, _, _ in rows if source == "LICENSE"}
    assert {package for _, package, _, _, _ in rows} == licensed


def test_no_script_names_a_source_map_that_is_not_here():
    for path in VENDOR.rglob("*.js"):
        assert "sourceMappingURL=" not in path.read_text("utf-8").rpartition("\n")[0][-300:]
