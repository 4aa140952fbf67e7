"""The Celery application. A message carries primary keys only and is only a bell."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")

app = Celery("tessera")
app.config_from_object("django.conf:settings", namespace="CELERY")
