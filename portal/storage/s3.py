"""The S3-compatible store. Imported only where a bucket is set: boto3 is an optional install."""

from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from django.core.files.base import ContentFile
from storages.backends.s3 import S3Storage
from storages.utils import clean_name

from portal.platform import Platform

FAILURES: tuple[type[Exception], ...] = (Boto3Error, BotoCoreError, ClientError, OSError)
CONNECT_SECONDS = 3


class SingleRequestStorage(S3Storage):  # type: ignore[misc]  # django-storages has no types
    """Reads an object with one request; the library's own file asks for its size twice first."""

    def _open(self, name: str, mode: str = "rb") -> "ContentFile[bytes]":
        item = self.bucket.Object(self._normalize_name(clean_name(name)))
        try:
            return ContentFile(item.get()["Body"].read(), name=name)
        except ClientError as error:
            # Without its bucket, too, the store answers 404; then all is away, not one object.
            is_missing = error.response["ResponseMetadata"]["HTTPStatusCode"] == 404
            if is_missing and error.response["Error"]["Code"] != "NoSuchBucket":
                raise FileNotFoundError(name) from error
            raise


def s3_storage(platform: Platform) -> S3Storage:
    """Django's storage API over the bucket. Each request is tried once, within the timeout: the
    callers retry by themselves, and nobody waits for a store that hangs."""
    return SingleRequestStorage(
        bucket_name=platform.s3_bucket,
        endpoint_url=platform.s3_endpoint or None,
        region_name=platform.s3_region or None,
        access_key=platform.s3_access_key or None,
        secret_key=platform.s3_secret_key or None,
        location=platform.s3_prefix,
        default_acl=None,
        # Names are new ones: asking whether one is taken would cost a request.
        file_overwrite=True,
        transfer_config=TransferConfig(use_threads=False, num_download_attempts=1),
        client_config=Config(
            connect_timeout=min(CONNECT_SECONDS, platform.s3_timeout_seconds),
            read_timeout=platform.s3_timeout_seconds,
            retries={"total_max_attempts": 1},
            # A bucket as a host name needs a DNS entry that a site's own store rarely has.
            s3={"addressing_style": "path" if platform.s3_endpoint else "auto"},
            # Trailing checksums, boto3's default, are unknown to many stores; sizes and our own
            # CRC32 are checked instead.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )
