"""Production: refuses to start on SQLite, DEBUG or a default secret."""

from django.core.exceptions import ImproperlyConfigured

from portal.settings.base import *  # noqa: F403 - settings modules inherit by star, Django's way
from portal.settings.base import DATABASES, SECRET_KEY, env

if len(SECRET_KEY) < 50:
    raise ImproperlyConfigured("Set TESSERA_SECRET_KEY to at least 50 random characters.")
if "sqlite" in str(DATABASES["default"]["ENGINE"]):
    raise ImproperlyConfigured("Set TESSERA_DATABASE_URL to a PostgreSQL database.")

SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_SSL_REDIRECT = env.bool("TESSERA_SSL_REDIRECT", default=True)
SECURE_HSTS_SECONDS = 31_536_000
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
CSRF_TRUSTED_ORIGINS = env.list("TESSERA_TRUSTED_ORIGINS", default=[])
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
