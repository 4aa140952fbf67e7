"""How much of jobs' files is stored, and for how long."""

from dataclasses import dataclass

from agents.configuration.declaration import setting
from portal.platform.readers import PLANNERS


@dataclass(frozen=True)
class FileSettings:
    stored_gib: int = setting(
        100,
        "How much code, outputs and checkpoints a project may store, unless an admin sets another "
        "limit for it.",
        readers=PLANNERS,
    )
    files_kept_days: int = setting(
        30,
        "Outputs and checkpoints are removed this many days after their job ended, and code after "
        "the last job that used it, unless an admin sets another time for the project. 0: never.",
        readers=PLANNERS,
    )
