"""The settings of this process, read once. Its import raises SettingsError with all problems."""

import os

from agents.configuration.reading import SettingsError
from portal.platform import Platform, platform_reading
from portal.settings.production import SETTINGS_MODULE, production_problems


def _read() -> Platform:
    reading = platform_reading(os.environ)
    problems = list(reading.problems)
    if reading.values.settings_module == SETTINGS_MODULE:
        problems += [
            sentence
            for name, sentence in production_problems(reading.values).items()
            # One that cannot be read is named already.
            if not any(problem.startswith(name) for problem in reading.problems)
        ]
    if problems:
        raise SettingsError("\n".join(problems))
    return reading.values


PLATFORM = _read()
