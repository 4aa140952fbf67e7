"""The language and the time zone of one reader."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.utils import timezone, translation

from portal.accounts.models import User
from portal.accounts.time_zones import user_zone


@contextmanager
def in_reader_terms(reader: User) -> Iterator[None]:
    """Sentences and times as this person has chosen them on the Account page."""
    language = reader.language or settings.LANGUAGE_CODE
    with translation.override(language), timezone.override(user_zone(reader)):
        yield
