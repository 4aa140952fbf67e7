"""What a portal that people use must have: no SQLite, no weak secret, names of its own."""

from agents.configuration.reading import SettingsError
from portal.platform import Platform
from portal.settings.strength import secret_problem

SETTINGS_MODULE = "portal.settings.prod"


def production_problems(platform: Platform) -> dict[str, str]:
    """A sentence for each setting that production refuses, by its name."""
    found = {"TESSERA_SECRET_KEY": secret_problem(platform.secret_key)}
    if any(host in ("*", ".") for host in platform.allowed_hosts):
        found["TESSERA_ALLOWED_HOSTS"] = (
            "TESSERA_ALLOWED_HOSTS must name the portal's hosts, such as gpu.example.org; * would "
            "let any web site's name through."
        )
    if not platform.database_url.startswith(("postgres://", "postgresql://")):
        found["TESSERA_DATABASE_URL"] = "Set TESSERA_DATABASE_URL to a PostgreSQL database."
    return {name: sentence for name, sentence in found.items() if sentence}


def require_production(platform: Platform) -> None:
    """Raises SettingsError with every problem."""
    if problems := production_problems(platform):
        raise SettingsError("\n".join(problems.values()))
