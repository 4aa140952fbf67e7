"""The web site: keys, names, proxies, HTTPS, rates."""

from dataclasses import dataclass

from agents.configuration.declaration import Secrecy, setting
from agents.configuration.value_kinds import DOMAIN, NETWORKS, RATE, choice, whole_number
from portal.platform.readers import PLANNERS, PORTAL, WEB

# In one web process, beside `agent_threads`: logs wait for each other, never a report for logs.
AGENT_LOG_THREADS = 2
# The same for files of jobs: no log waits for them.
AGENT_FILE_THREADS = 2


@dataclass(frozen=True)
class SiteSettings:
    secret_key: str = setting(
        "",
        "At least 50 random characters. Signs sessions, and seals secrets of webhooks and "
        "authenticator apps.",
        secrecy=Secrecy.WHOLE,
        readers=PORTAL,
    )
    secret_key_fallbacks: tuple[str, ...] = setting(
        (),
        "Earlier keys, the latest first: what they signed or sealed goes on working. In a file, "
        "one a line.",
        secrecy=Secrecy.WHOLE,
        readers=PORTAL,
    )
    allowed_hosts: tuple[str, ...] = setting(
        ("127.0.0.1", "localhost"), "The portal's host names.", readers=WEB
    )
    trusted_origins: tuple[str, ...] = setting(
        (),
        "Further origins of forms, such as `https://gpu.example.org:8443`.",
        readers=WEB,
    )
    apps_domain: str = setting(
        "",
        "The domain of jobs' apps, such as `apps-example.net`: each has a host below it, so DNS "
        "and the certificate have a wildcard. Not a domain of the portal's. Empty: no apps are "
        "served.",
        kind=DOMAIN,
        readers=WEB,
    )
    terminals: bool = setting(
        True,
        "Owners of running jobs may open terminals in them. Projects can turn theirs off.",
        readers=WEB,
    )
    terminal_idle_minutes: int = setting(
        30,
        "A terminal in which nothing was typed or printed for so long is closed.",
        kind=whole_number(1),
        readers=WEB,
    )
    trusted_proxies: int = setting(
        0,
        "How many proxies in front of the portal add to X-Forwarded-For. 0: the header is "
        "ignored. `docker-compose.yml` sets 1.",
        readers=WEB,
    )
    ssl_redirect: bool = setting(True, "Plain HTTP is redirected to HTTPS.", readers=WEB)
    hsts_seconds: int = setting(
        31_536_000, "How long browsers insist on HTTPS (HSTS). 0: not at all.", readers=WEB
    )
    hsts_subdomains: bool = setting(
        True, "HSTS for all hosts below the portal's name as well.", readers=WEB
    )
    hsts_preload: bool = setting(
        False,
        "Lets browsers ship the name with their HSTS list, which they keep for months.",
        readers=WEB,
    )
    max_streams: int = setting(
        40,
        "Event streams that one user may have open in one web process; each open page has one.",
        readers=WEB,
    )
    agent_threads: int = setting(
        8,
        "Database threads for agents' calls in one web process.",
        kind=whole_number(1),
        readers=WEB,
    )
    rate_calls: str = setting(
        "1200/min", "REST calls allowed for one user.", kind=RATE, readers=WEB
    )
    rate_submits: str = setting(
        "1200/min",
        "Jobs that one user may submit over REST; a call that submits many counts each.",
        kind=RATE,
        readers=WEB,
    )
    queue_names: str = setting(
        "own",
        "Whose names a user sees on the Queue page: those of their projects, or all.",
        kind=choice("own", "all"),
        readers=WEB,
    )
    webhook_networks: str = setting(
        "",
        "Private networks that webhooks may reach. Empty: public addresses only.",
        kind=NETWORKS,
        readers=PLANNERS,
    )

    @property
    def agent_connections(self) -> int:
        """Database connections that the threads for agents' calls of a web process keep."""
        return self.agent_threads + AGENT_LOG_THREADS + AGENT_FILE_THREADS
