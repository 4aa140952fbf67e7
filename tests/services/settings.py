"""The product's settings, but for passwords: one takes half a second to hash or check by design."""

from portal.settings.dev import *  # noqa: F403 - settings modules inherit by star, Django's way

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
