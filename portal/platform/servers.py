"""The servers that it uses: database, Redis, broker, mail."""

from dataclasses import dataclass

from agents.configuration.declaration import Secrecy, setting
from agents.configuration.value_kinds import url
from portal.platform.readers import BEAT, PLANNERS, PORTAL, WEB, WORKER


@dataclass(frozen=True)
class ServerSettings:
    database_url: str = setting(
        "",
        "`postgres://USER@HOST:PORT/NAME`. Empty: SQLite in `var`, which production refuses.",
        kind=url("postgres", "postgresql", "sqlite"),
        secrecy=Secrecy.URL,
        readers=PORTAL,
    )
    direct_database_url: str = setting(
        "",
        "PostgreSQL's own address, for the locks of workers, where TESSERA_DATABASE_URL is that "
        "of a pooler such as PgBouncer. Empty: the same.",
        kind=url("postgres", "postgresql"),
        secrecy=Secrecy.URL,
        readers=PORTAL,
    )
    db_password: str = setting(
        "",
        "The password of both, if their URLs have none. Any characters.",
        secrecy=Secrecy.WHOLE,
        readers=PORTAL,
    )
    redis_url: str = setting(
        "",
        "Redis, for bells and rate limits, such as `rediss://USER@HOST:PORT/0`. Empty: sockets and "
        "files under `var`, which serve one machine only.",
        kind=url("redis", "rediss", "unix"),
        secrecy=Secrecy.URL,
        readers=PLANNERS,
    )
    redis_password: str = setting(
        "", "Its password, if the URL has none.", secrecy=Secrecy.WHOLE, readers=PLANNERS
    )
    broker_url: str = setting(
        "filesystem://",
        "Celery's broker: Redis, or files under `var` on one machine.",
        kind=url(),
        secrecy=Secrecy.URL,
        readers=PORTAL,
    )
    broker_password: str = setting(
        "",
        "Its password, if the URL has none.",
        secrecy=Secrecy.WHOLE,
        readers=(WEB, WORKER, BEAT),
    )
    email_url: str = setting(
        "",
        "The mail server, such as `smtp+tls://USER:PASSWORD@HOST:587`. Empty: nothing is mailed.",
        kind=url(),
        secrecy=Secrecy.URL,
        readers=WORKER,
    )
    public_url: str = setting(
        "",
        "The portal's address, such as `https://gpu.example.org`, for links in mails and chat "
        "messages, and from apps back to their jobs. Empty: they have no links.",
        kind=url("https", "http"),
        readers=PLANNERS,
    )
    email_from: str = setting("tessera@localhost", "The sender of mails.", readers=WORKER)
