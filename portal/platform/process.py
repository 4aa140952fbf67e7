"""How its programs run."""

from dataclasses import dataclass
from pathlib import Path

from agents.configuration.declaration import Secrecy, setting
from agents.configuration.value_kinds import LOG_FORMAT, PORT, TIME_ZONE
from agents.contract.version import VERSION
from portal.platform.readers import BEAT, COMPOSE, DEMONSTRATION, PLANNERS, PORTAL, WEB, WORKER


@dataclass(frozen=True)
class ProcessSettings:
    settings_module: str = setting(
        "",
        "Django's settings: `portal.settings.prod` for a portal that people use. Empty: those of "
        "development, on a machine set up for it.",
        name="DJANGO_SETTINGS_MODULE",
        readers=PORTAL,
    )
    var: Path = setting(  # noqa: RUF009 - it makes a field
        Path("var"),
        "Folder for logs, sockets of bells and, without PostgreSQL, the database.",
        readers=PORTAL,
    )
    spool_folder: str = setting(
        "",
        "Folder for the bodies of requests while they arrive: an upload is as large as 128 MiB, so "
        "it should be on a disk. Empty: the system's folder of temporary files.",
        readers=WEB,
    )
    heartbeat_file: str = setting(
        "",
        "The file that a worker or beat touches while it works (`python -m portal.heartbeat`). "
        "Empty: none.",
        readers=(WORKER, BEAT),
    )
    time_zone: str = setting(
        "UTC",
        "Of reports, and of pages whose reader's zone is unknown.",
        kind=TIME_ZONE,
        readers=PLANNERS,
    )
    drain_seconds: float = setting(
        0.0,
        "A web process that was told to end serves this much longer, with `/readyz` at 503: longer "
        "than the proxy in front needs to notice. 0 where no other web process serves meanwhile.",
        readers=WEB,
    )
    log_format: str = setting(
        "",
        "The form of log lines. Empty: text on a terminal, JSON elsewhere.",
        kind=LOG_FORMAT,
        readers=PORTAL,
    )
    metrics_token: str = setting(
        "",
        "Who presents it as `Authorization: Bearer …` may read `/metrics`. Empty: nobody, but for "
        "a worker or beat that listens on loopback.",
        secrecy=Secrecy.WHOLE,
        readers=(WEB, WORKER, BEAT),
    )
    metrics_listen: str = setting(
        "",
        "HOST:PORT where a worker or beat serves its metrics; PORT alone is on loopback. Empty: "
        "nowhere.",
        readers=(WORKER, BEAT),
    )
    version: str = setting(
        VERSION, "The tag of the portal's image in `docker-compose.yml`.", readers=COMPOSE
    )
    port: int = setting(8000, "The demonstration's port.", kind=PORT, readers=DEMONSTRATION)
