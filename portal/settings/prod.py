"""Production: refuses to start on SQLite, with a weak secret, or for every host."""

from django.core.exceptions import ImproperlyConfigured

from portal.settings.base import *  # noqa: F403 - settings modules inherit by star, Django's way
from portal.settings.base import ALLOWED_HOSTS, DATABASES, SECRET_KEY, env
from portal.settings.strength import secret_problem

if problem := secret_problem(SECRET_KEY):
    raise ImproperlyConfigured(problem)
if any(host.strip() in ("*", ".") for host in ALLOWED_HOSTS):
    raise ImproperlyConfigured(
        "TESSERA_ALLOWED_HOSTS must name the portal's hosts, such as gpu.example.org; * would let "
        "any web site's name through."
    )
if "sqlite" in str(DATABASES["default"]["ENGINE"]):
    raise ImproperlyConfigured("Set TESSERA_DATABASE_URL to a PostgreSQL database.")

SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_SSL_REDIRECT = env.bool("TESSERA_SSL_REDIRECT", default=True)
SECURE_HSTS_SECONDS = env.int("TESSERA_HSTS_SECONDS", default=31_536_000)
# For a whole domain only if its owner says so: other hosts below it may not have TLS.
SECURE_HSTS_INCLUDE_SUBDOMAINS = env.bool("TESSERA_HSTS_SUBDOMAINS", default=True)
# Browsers that have a preloaded domain keep it for months: only on demand.
SECURE_HSTS_PRELOAD = env.bool("TESSERA_HSTS_PRELOAD", default=False)
SILENCED_SYSTEM_CHECKS = ["security.W021"]
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
CSRF_TRUSTED_ORIGINS = env.list("TESSERA_TRUSTED_ORIGINS", default=[])
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
