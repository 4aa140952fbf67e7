"""Back up and restore: what the two commands do."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from portal.backup.aftermath import Counter, counters, numbers_advance, rows_settle
from portal.backup.archive import (
    DATABASE,
    ArchiveReader,
    BackupError,
    Manifest,
    archive_reader,
    archive_writer,
)
from portal.backup.consistency import BrokenStream, broken_streams, streams_cut
from portal.backup.dump import database_dump, database_is_empty, database_load
from portal.backup.keys import key_print, present_keys
from portal.backup.objects import named_segments, objects_load, objects_save
from portal.inventory.models import Node
from portal.jobs.models import Job
from portal.storage.errors import StoreUnavailable
from portal.storage.models import Segment

# More jobs, attempts or events than a portal makes between two backups.
MARGIN = 10_000


@dataclass(frozen=True, slots=True)
class RestoreResult:
    manifest: Manifest
    broken: list[BrokenStream]
    logs_cut: int
    unreadable_keys: bool
    """Sealed secrets were sealed with a key that this portal does not have."""
    nodes: int = 0
    warnings: list[str] = field(default_factory=list)


def backup_write(target: Path, *, with_keys: bool = False) -> Manifest:
    """Write an archive of one moment. Raises BackupError."""
    with (
        _store_required(),
        tempfile.TemporaryDirectory(dir=target.parent, prefix=".backup-") as folder,
    ):
        dumped = Path(folder) / DATABASE
        with archive_writer(target) as archive:
            with database_dump(dumped):
                rows = named_segments()
                manifest = _manifest(with_keys=with_keys)
            archive.add_file(DATABASE, dumped)
            manifest.missing = objects_save(rows, archive)
            archive.finish(manifest)
    return manifest


def backup_restore(
    source: Path, *, replace: bool, margin: int = MARGIN, needs_keys: bool = False
) -> RestoreResult:
    """Replace database and objects by those of the archive. Raises BackupError; then the database
    is as it was. `needs_keys`: an archive without the secret keys is refused."""
    with (
        _store_required(),
        archive_reader(source) as archive,
        tempfile.TemporaryDirectory(dir=source.parent, prefix=".restore-") as folder,
    ):
        _require_restorable(archive.manifest, replace=replace)
        if needs_keys and not archive.manifest.keys:
            raise BackupError(
                "the archive has no keys, as it was made without --with-keys: nothing was changed; "
                "leave out --keys-to"
            )
        old, new = Path(folder) / "old", Path(folder) / DATABASE
        archive.copy(DATABASE, new)
        with database_dump(old):
            before = counters()
        try:
            database_load(new)
            return _settle(archive, before, margin)
        except BaseException:
            database_load(old)
            raise


@contextmanager
def _store_required() -> Iterator[None]:
    try:
        yield
    except StoreUnavailable as error:
        raise BackupError(
            f"the log store does not answer ({error.detail}): nothing was changed, try again later"
        ) from error


def _settle(archive: ArchiveReader, before: list[Counter], margin: int) -> RestoreResult:
    call_command("migrate", interactive=False, verbosity=0)
    objects_load(archive)
    numbers_advance(before, margin)
    rows_settle(margin)
    broken = broken_streams()
    known = {key_print(key) for key in present_keys()}
    return RestoreResult(
        manifest=archive.manifest,
        broken=broken,
        logs_cut=streams_cut(broken),
        unreadable_keys=archive.manifest.key_prints[0] not in known,
        nodes=Node.objects.exclude(restored_at=None).count(),
    )


def _manifest(*, with_keys: bool) -> Manifest:
    applied: dict[str, list[str]] = {}
    for app, name in sorted(MigrationRecorder(connection).applied_migrations()):
        applied.setdefault(app, []).append(name)
    models = (Job, Node, Segment)
    return Manifest(
        vendor=connection.vendor,
        made_at=timezone.now().isoformat(),
        migrations=applied,
        key_prints=[key_print(key) for key in present_keys()],
        counts={model._meta.model_name or "": model.objects.count() for model in models},
        keys=present_keys() if with_keys else [],
    )


def _require_restorable(manifest: Manifest, *, replace: bool) -> None:
    if manifest.vendor != connection.vendor:
        raise BackupError(
            f"this archive is of {manifest.vendor}, and the portal is on {connection.vendor}"
        )
    known = MigrationLoader(None, ignore_no_migrations=True).disk_migrations
    newer = [
        f"{app}.{name}"
        for app, names in manifest.migrations.items()
        for name in names
        if (app, name) not in known and not _is_replaced(known, app, name)
    ]
    if newer:
        raise BackupError(
            f"the archive is of a newer portal (it has {newer[0]}): update the portal first"
        )
    if not replace and not database_is_empty():
        raise BackupError("the database is not empty: --yes-replace replaces it")


def _is_replaced(known: object, app: str, name: str) -> bool:
    """A squashed migration stands for it."""
    migrations = known.values() if isinstance(known, dict) else ()
    return any((app, name) in migration.replaces for migration in migrations)
