"""Where the database and the broker are, and how they are reached: over TLS, through a pooler."""

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

# For pages, REST calls and tasks of one process at the same time.
REQUEST_CONNECTIONS = 16
# A connection that cannot be made is given up soon: each request tries anew, so that the first one
# after an outage of the database does not wait for a pause that has grown.
POOL = {"min_size": 1, "timeout": 10, "reconnect_timeout": 3}
# A server whose machine vanished is given up after 20 s; the kernel's own defaults are hours.
LOST_MACHINE = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
# kombu speaks plain text with a `rediss://` server unless one of these is there.
VERIFIED = {"ssl_cert_reqs": "required", "ssl_check_hostname": "true"}


def postgres_settings(
    database: dict[str, Any], *, direct_url: str, agent_connections: int
) -> dict[str, Any]:
    """`database`, as read from TESSERA_DATABASE_URL, with a pool of connections: they return to it
    between requests and tasks. Options of the URL stay, such as `sslmode` and `sslrootcert`.

    `agent_connections`: threads for agents' calls, each of which keeps its connection. The pool
    has room for them beside the requests, which otherwise wait until they fail with 503.
    `direct_url`: of PostgreSQL itself where the database is reached through a pooler that gives
    each transaction another session. Then a cursor of the server, which outlives its transaction,
    would be looked for in the wrong one.
    """
    pool = POOL | {"max_size": REQUEST_CONNECTIONS + agent_connections}
    options = LOST_MACHINE | database.get("OPTIONS", {}) | {"pool": pool}
    is_pooled = bool(direct_url)
    return database | {"OPTIONS": options, "DISABLE_SERVER_SIDE_CURSORS": is_pooled}


def broker_address(url: str) -> str:
    """The URL for Celery. `rediss://` means TLS with a server whose certificate and name are
    verified, by the authorities in `ssl_ca_certs` or those of the system, unless the URL says
    otherwise."""
    parts = urlsplit(url)
    if parts.scheme != "rediss":
        return url
    query = VERIFIED | dict(parse_qsl(parts.query))
    return urlunsplit(parts._replace(query=urlencode(query, safe="/")))
