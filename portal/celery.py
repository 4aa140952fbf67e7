"""The Celery application. A message is a bell: it carries primary keys and no data."""

import logging
from typing import Any

from celery import Celery
from celery.signals import after_task_publish, beat_init, heartbeat_sent, setup_logging
from django.conf import settings
from kombu.transport import TRANSPORT_ALIASES

from portal.heartbeat import touch
from portal.settings_choice import choose_settings

choose_settings()

# kombu's own transport may read half-written messages, which ends the worker.
TRANSPORT_ALIASES["filesystem"] = "portal.filesystem_broker:Transport"
# kombu's own ends the worker on an item that is no message.
for _name in ("redis", "rediss"):
    TRANSPORT_ALIASES[_name] = "portal.redis_broker:RedisTransport"

app = Celery("tessera")
app.config_from_object("django.conf:settings", namespace="CELERY")


def worker_alive(**_: Any) -> None:
    """The worker's main loop runs, and is connected to the broker."""
    touch(settings.PLATFORM.heartbeat_file)


def beat_alive(**_: Any) -> None:
    """The broker took a task that was due."""
    touch(settings.PLATFORM.heartbeat_file)


def beat_begins(**_: Any) -> None:
    # Not before: web processes and workers publish tasks as well.
    after_task_publish.connect(beat_alive)


def leave_logging(**_: Any) -> None:
    """Django's settings have configured it; with this, Celery adds nothing and redirects nothing.
    Its option `--loglevel` does nothing."""
    logging.captureWarnings(True)


setup_logging.connect(leave_logging)
heartbeat_sent.connect(worker_alive)
beat_init.connect(beat_begins)
