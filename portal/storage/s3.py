"""The S3-compatible store. Imported only where a bucket is set: boto3 is an optional install."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from django.core.files.base import ContentFile, File
from storages.backends.s3 import S3Storage
from storages.utils import clean_name, safe_join

from portal.platform import Platform

FAILURES: tuple[type[Exception], ...] = (BotoCoreError, ClientError, OSError)
CONNECT_SECONDS = 3


class BucketStorage(S3Storage):  # type: ignore[misc]  # django-storages has no types
    """One request of one client for each call. The library's own calls go over boto3's resources:
    these define their classes anew each time, 90 KiB for the garbage collector, and ask for an
    object's size before they read it."""

    def _open(self, name: str, mode: str = "rb") -> "ContentFile[bytes]":
        return ContentFile(self._call(self._client.get_object, name)["Body"].read(), name=name)

    def _save(self, name: str, content: "File[bytes]") -> str:
        self._call(self._client.put_object, name, Body=content.read())
        return name

    def size(self, name: str) -> int:
        return int(self._call(self._client.head_object, name)["ContentLength"])

    def copy(self, source: str, target: str) -> None:
        """Within the bucket; its bytes do not come here."""
        here = {"Bucket": self.bucket_name, "Key": self._normalize_name(clean_name(source))}
        self._call(self._client.copy_object, target, CopySource=here)

    def delete(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._call(self._client.delete_object, name)

    @property
    def _client(self) -> Any:
        """Safe for threads, unlike the resource that has it; `connection` is one per thread."""
        return self.bucket.meta.client

    def _call(self, request: Callable[..., Any], name: str, **parameters: object) -> Any:
        key = self._normalize_name(clean_name(name))
        try:
            return request(Bucket=self.bucket_name, Key=key, **parameters)
        except ClientError as error:
            # A missing bucket is a 404, too: then every object is away, not only this one.
            is_missing = error.response["ResponseMetadata"]["HTTPStatusCode"] == 404
            if is_missing and error.response["Error"]["Code"] != "NoSuchBucket":
                raise FileNotFoundError(name) from error
            raise


class UrlSigner:
    """Signs URLs of single requests, without making one, for the store as nodes reach it."""

    def __init__(self, platform: Platform) -> None:
        self._bucket, self._prefix = platform.s3_bucket, platform.s3_prefix
        endpoint = platform.s3_node_endpoint or platform.s3_endpoint
        # A session of its own: making a client changes its session, and threads share the default.
        self._client = boto3.Session().client(
            "s3",
            endpoint_url=endpoint or None,
            region_name=platform.s3_region or None,
            aws_access_key_id=platform.s3_access_key or None,
            aws_secret_access_key=platform.s3_secret_key or None,
            config=Config(signature_version="s3v4", **_options(endpoint)),
        )

    def put_url(self, name: str, size: int, seconds: int) -> str:
        """The length is signed: the store takes these many bytes and no others."""
        return self._url("put_object", name, seconds, ContentLength=size)

    def get_url(self, name: str, seconds: int) -> str:
        return self._url("get_object", name, seconds)

    def _url(self, request: str, name: str, seconds: int, **parameters: object) -> str:
        key = safe_join(self._prefix, clean_name(name))
        where = {"Bucket": self._bucket, "Key": key} | parameters
        return str(self._client.generate_presigned_url(request, Params=where, ExpiresIn=seconds))


def s3_storage(platform: Platform) -> S3Storage:
    """Django's storage API over the bucket. Each request is tried once, within the timeout: the
    callers retry, and nobody waits for a store that hangs."""
    return BucketStorage(
        bucket_name=platform.s3_bucket,
        endpoint_url=platform.s3_endpoint or None,
        region_name=platform.s3_region or None,
        access_key=platform.s3_access_key or None,
        secret_key=platform.s3_secret_key or None,
        location=platform.s3_prefix,
        default_acl=None,
        # Names are new ones: asking whether one is taken would cost a request.
        file_overwrite=True,
        client_config=Config(
            connect_timeout=min(CONNECT_SECONDS, platform.s3_timeout_seconds),
            read_timeout=platform.s3_timeout_seconds,
            retries={"total_max_attempts": 1},
            **_options(platform.s3_endpoint),
        ),
    )


def _options(endpoint: str) -> dict[str, Any]:
    return {
        # A bucket as a host name needs a DNS entry that a site's own store rarely has.
        "s3": {"addressing_style": "path" if endpoint else "auto"},
        # Trailing checksums, boto3's default, are unknown to many stores; sizes and our own CRC32
        # are checked instead.
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
    }
