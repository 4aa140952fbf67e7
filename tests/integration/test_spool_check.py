"""`manage.py check --deploy` says whether uploads have a folder to wait in, and room there."""

import shutil
from collections import namedtuple

import pytest
from django.core.checks import run_checks

from portal.files.uploads.checks import spool_check
from portal.files.uploads.parts import MIB
from portal.platform import Platform

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def spool(settings, monkeypatch):
    """Names the folder, with so much free."""

    def choose(folder, free_mib=100_000):
        settings.PLATFORM = Platform(spool_folder=str(folder))
        monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, free_mib * MIB))

    return choose


def findings():
    found = run_checks(include_deployment_checks=True)
    return [(check.id, check.msg) for check in found if str(check.id).endswith("_SPOOL")]


def test_a_folder_with_room_for_several_uploads_is_fine(spool, tmp_path):
    spool(tmp_path, 512)
    assert findings() == []


def test_a_folder_that_is_missing_is_named(spool, tmp_path):
    spool(tmp_path / "gone")
    sentence = f"Nobody can send code on the request page: {tmp_path}/gone is no folder."
    assert findings() == [("tessera.E_SPOOL", sentence)]
    (tmp_path / "gone").write_text("a file")
    assert findings() == [("tessera.E_SPOOL", sentence)]


def test_a_folder_that_cannot_be_written_to_is_named(spool):
    # Not even by root.
    spool("/proc")
    sentence = "Nobody can send code on the request page: /proc cannot be written to."
    assert findings() == [("tessera.E_SPOOL", sentence)]


@pytest.mark.parametrize("free_mib", [0, 64, 511])
def test_a_small_one_such_as_one_in_memory_is_a_warning(spool, tmp_path, free_mib):
    spool(tmp_path, free_mib)
    ((code, sentence),) = findings()
    assert code == "tessera.W_SPOOL"
    assert sentence.startswith(f"{tmp_path}, where code waits that people send, has {free_mib} MiB")


def test_without_the_setting_it_is_the_folder_of_temporary_files(spool, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    spool("")
    assert "gone is no folder" in findings()[0][1]


def test_only_the_check_of_a_deployment_looks(spool, tmp_path):
    spool(tmp_path / "gone")
    assert spool_check() and not [c for c in run_checks() if "SPOOL" in str(c.id)]
