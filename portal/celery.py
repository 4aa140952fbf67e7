"""The Celery application. A message carries primary keys only and is only a bell."""

import os

from celery import Celery
from kombu.transport import TRANSPORT_ALIASES

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")

# kombu's own loses half-written messages, and the worker with them.
TRANSPORT_ALIASES["filesystem"] = "portal.filesystem_broker:Transport"

app = Celery("tessera")
app.config_from_object("django.conf:settings", namespace="CELERY")
