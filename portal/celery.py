"""The Celery application. A message is a bell: it carries primary keys and no data."""

from celery import Celery
from kombu.transport import TRANSPORT_ALIASES

from portal.settings_choice import choose_settings

choose_settings()

# kombu's own transport may read half-written messages, which ends the worker.
TRANSPORT_ALIASES["filesystem"] = "portal.filesystem_broker:Transport"
# kombu's own ends the worker on an item that is no message.
for _name in ("redis", "rediss"):
    TRANSPORT_ALIASES[_name] = "portal.redis_broker:RedisTransport"

app = Celery("tessera")
app.config_from_object("django.conf:settings", namespace="CELERY")
