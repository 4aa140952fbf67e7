"""The programs that read settings of the portal, and groups of them."""

from agents.configuration.declaration import SettingReader

WEB, WORKER = SettingReader.WEB, SettingReader.WORKER
BEAT, MIGRATE = SettingReader.BEAT, SettingReader.MIGRATE
COMPOSE, DEMONSTRATION = SettingReader.COMPOSE, SettingReader.DEMONSTRATION
# Whatever imports Django's settings.
PORTAL = (WEB, WORKER, BEAT, MIGRATE)
# Both plan: a dry run and a preview are passes within a web process.
PLANNERS = (WEB, WORKER)
