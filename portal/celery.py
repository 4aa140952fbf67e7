"""The Celery application. A message is a bell: it carries primary keys and no data."""

import os

from celery import Celery
from kombu.transport import TRANSPORT_ALIASES

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")

# kombu's own transport may read half-written messages, which ends the worker.
TRANSPORT_ALIASES["filesystem"] = "portal.filesystem_broker:Transport"
# kombu's own ends the worker on an item that is no message.
for _name in ("redis", "rediss"):
    TRANSPORT_ALIASES[_name] = "portal.redis_broker:RedisTransport"

app = Celery("tessera")
app.config_from_object("django.conf:settings", namespace="CELERY")
