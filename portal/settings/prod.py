"""Production: refuses to start on SQLite, with a weak secret, or for every host."""

from portal.settings.base import *  # noqa: F403 - settings modules inherit by star, Django's way
from portal.settings.base import PLATFORM
from portal.settings.production import require_production

require_production(PLATFORM)

LOAD_KERNELS = True
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_SSL_REDIRECT = PLATFORM.ssl_redirect
SECURE_HSTS_SECONDS = PLATFORM.hsts_seconds
# For a whole domain only if its owner says so: other hosts below it may not have TLS.
SECURE_HSTS_INCLUDE_SUBDOMAINS = PLATFORM.hsts_subdomains
# Browsers that have a preloaded domain keep it for months: only on demand.
SECURE_HSTS_PRELOAD = PLATFORM.hsts_preload
SILENCED_SYSTEM_CHECKS = ["security.W021"]
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
CSRF_TRUSTED_ORIGINS = list(PLATFORM.trusted_origins)
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
