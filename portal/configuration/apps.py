import logging
import os

from django.apps import AppConfig

from agents.configuration.names import unknown_settings
from portal.configuration.report import known_names

log = logging.getLogger(__name__)


class ConfigurationConfig(AppConfig):
    name = "portal.configuration"
    label = "configuration"

    def ready(self) -> None:
        """Every process of the portal says at its start what it will ignore."""
        for sentence in unknown_settings(os.environ, known_names()):
            log.warning("%s", sentence)
