"""The portal: what people want, written down as rows, shown as pages and REST."""

from portal.celery import app as celery_app

__all__ = ["celery_app"]
