"""The settings of test stacks, with a line of the log for each task, also those of the clock."""

from tests.services.settings import *  # noqa: F403 - settings modules inherit by star, Django's way
from tests.services.settings import LOGGING

LOGGING["loggers"]["portal.monitoring.celery_process"] = {"level": "DEBUG"}
