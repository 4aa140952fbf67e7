"""The store that takes new bytes, and the stores that have old ones."""

import contextlib
import socket
import uuid
from datetime import timedelta
from functools import cache
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from portal.database.kept_queries import KeptSelect
from portal.platform import Platform
from portal.storage.errors import OtherHost, StoreUnavailable
from portal.storage.folder import FolderStorage
from portal.storage.models import ByteStore
from portal.storage.objects import ObjectStore

# Beside the logs: with containers, only this folder outlives one.
FOLDER_ID = "logs/.store-id"
# How exact `ByteStore.used_at` is.
USED_EVERY = timedelta(minutes=10)
# Asked whenever bytes are recorded.
BY_KEY = KeptSelect(lambda key: ByteStore.objects.filter(key=key), ByteStore._meta.get_field("key"))


def current_store() -> ObjectStore:
    """Where new bytes go: the bucket of TESSERA_S3_BUCKET, or the folder TESSERA_VAR. Raises
    StoreUnavailable if the folder cannot be written to."""
    platform: Platform = settings.PLATFORM
    return _bucket(platform) if platform.s3_bucket else folder_store()


def folder_store() -> ObjectStore:
    """This host's own folder."""
    return _folder(settings.PLATFORM.var)


def reachable_stores() -> dict[str, ObjectStore]:
    """The stores that this process can read and delete from, by key.

    With a bucket set, the folder still counts if bytes were stored in it before.
    """
    stores = [current_store()]
    if settings.PLATFORM.s3_bucket and (settings.PLATFORM.var / FOLDER_ID).exists():
        stores.append(folder_store())
    return {store.key: store for store in stores}


def store_by_key(key: str) -> ObjectStore:
    """The store that has the bytes of a segment. Raises OtherHost if it is out of reach."""
    if found := reachable_stores().get(key):
        return found
    row = ByteStore.objects.get(key=key)
    raise OtherHost(row.host, row.location)


def forget_stores() -> None:
    """Forget failures and settings of earlier calls: tests change the stores."""
    _folder.cache_clear()
    _bucket.cache_clear()


def store_row(store: ObjectStore) -> ByteStore:
    """The row that segments in this store refer to."""
    now = timezone.now()
    row = next(iter(BY_KEY.rows(store.key)), None)
    if row is None:
        row, _ = ByteStore.objects.get_or_create(
            key=store.key,
            defaults={"host": store.host, "location": store.location, "used_at": now},
        )
    if row.used_at < now - USED_EVERY:
        ByteStore.objects.filter(pk=row.pk).update(used_at=now)
    return row


def folder_id(folder: Path) -> str:
    """The id of a folder, made on first use. It lies in the folder, so that hosts which share the
    folder, or a new host with the old disk, have the same id."""
    path = folder / FOLDER_ID
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{uuid.uuid4().hex}")
        fresh.write_text(uuid.uuid4().hex)
        # The first one wins, also over other processes.
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(fresh)
        fresh.unlink()
    return path.read_text().strip()


@cache
def _folder(folder: Path) -> ObjectStore:
    host, location = socket.gethostname(), str(folder.resolve())
    try:
        key = f"folder:{folder_id(folder)}"
    except OSError as error:
        raise StoreUnavailable(f"{location} has no id: {error}") from error
    return ObjectStore(key, location, FolderStorage(folder), (OSError,), host)


@cache
def _bucket(platform: Platform) -> ObjectStore:
    # Imported late: boto3 is installed only where a bucket is used.
    from portal.storage.s3 import FAILURES, s3_storage  # noqa: PLC0415

    location = f"{platform.s3_endpoint or 's3:/'}/{platform.s3_bucket}/{platform.s3_prefix}"
    return ObjectStore(f"s3:{location}", location, s3_storage(platform), FAILURES)
