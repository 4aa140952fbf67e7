"""Whether the store that the settings name can be used at all: `migrate` and the worker, which run
the checks, do not start without its packages."""

from importlib.util import find_spec
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error


def store_check(**_: Any) -> list[CheckMessage]:
    if settings.PLATFORM.s3_bucket and find_spec("storages") is None:
        hint = "Install requirements/s3.lock: python3 requirements/install.py s3"
        sentence = "TESSERA_S3_BUCKET is set, but django-storages is not installed."
        return [Error(sentence, hint=hint, id="tessera.E_STORE")]
    return []
