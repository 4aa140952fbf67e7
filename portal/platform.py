"""Every knob of ours in one place: typed, documented, read from the environment at the edge.

Code takes the values it needs as arguments; only entry points read `settings.PLATFORM`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Platform:
    """Each field is read from TESSERA_<NAME>. Times are in seconds, amounts in the named unit."""

    var: Path = Path("var")
    """Folder for logs, bells and, without PostgreSQL, the database."""
    redis_url: str = ""
    """Redis for bells between processes and for counts of calls. Empty: datagram sockets and files
    under `var`, one machine only."""
    image_allow: str = "*"
    """Comma-separated patterns of image names that may be asked for."""
    default_time_limit_seconds: int = 4 * 3600
    max_time_limit_seconds: int = 7 * 24 * 3600
    max_replicas: int = 64
    default_quota_units: int = 8 * 56_000
    """What a new project may hold at once, in units (56,000 = one GPU)."""
    lease_seconds: int = 300
    """An agent out of contact this long stops what its policy says to stop."""
    kill_grace_seconds: int = 30
    lease_margin_seconds: int = 15
    unreachable_seconds: int = 15
    lost_seconds: int = 60
    agent_token_seconds: int = 900
    join_token_seconds: int = 3600
    hold_seconds: int = 20
    """How long a sync call is held while nothing changes (jittered by 20 %)."""
    prepare_timeout_seconds: int = 900
    """A gang that is not ready by then is stopped and tried again elsewhere."""
    partition_dwell_seconds: int = 30
    """A GPU that was carved or merged keeps its idle slices this long."""
    telemetry_seconds: int = 5
    """A node's samples are taken at most this often."""
    trusted_proxies: int = 0
    """Proxies before the portal that add to X-Forwarded-For; 0: the header is not believed."""
    oidc_issuer: str = ""
    """The OpenID Connect provider, exactly as it calls itself. Empty: local accounts only."""
    oidc_client_id: str = ""
    oidc_client_secret: str = field(default="", repr=False)
    oidc_name: str = "your organisation"
    """What the button says after "Sign in with"."""
    saml_metadata_url: str = ""
    """Where the SAML identity provider publishes its metadata. Empty: no sign-in by SAML."""
    saml_entity_id: str = ""
    saml_name: str = "your organisation"
    saml_username: str = "urn:oid:0.9.2342.19200300.100.1.1"
    """The attribute that suggests a user name; this one is `uid`."""
    ldap_url: str = ""
    """The directory, as `ldap://` with StartTLS or `ldaps://`. Empty: no sign-in by LDAP."""
    ldap_people: str = ""
    """Under which name people are looked for: `ou=people,dc=example,dc=org`."""
    ldap_filter: str = "(uid=%(user)s)"
    ldap_id: str = "entryUUID"
    """The attribute that tells a person from everybody else, for ever; `objectGUID` in AD."""
    ldap_bind_dn: str = ""
    """Who looks people up. Empty: nobody in particular."""
    ldap_bind_password: str = field(default="", repr=False)
    ldap_certificates: str = ""
    """A file with the authorities that the directory's certificate is checked against. Empty: the
    machine's own."""
    agent_threads: int = 8
    """Database threads that serve agents in one web process."""
    rate_calls: str = "1200/min"
    """How often one user may call REST: a number per s, min, hour or day."""
    rate_submits: str = "120/min"
    """How often one user may submit over REST."""
    webhook_networks: str = ""
    """Comma-separated networks, such as 10.20.0.0/16, that webhooks may reach although they are
    not public. Empty: public addresses only."""
    queue_names: str = "own"
    """Whose names everybody reads on the Queue page: `own` are those of one's projects, `all`
    everybody's."""


def platform_from(environ: Mapping[str, str]) -> Platform:
    """The knobs, from TESSERA_* variables. Raises ValueError naming the variable that is wrong."""
    values: dict[str, object] = {}
    for knob in fields(Platform):
        name = f"TESSERA_{knob.name.upper()}"
        if name in environ:
            values[knob.name] = _read(name, environ[name], type(knob.default))
    return Platform(**values)  # type: ignore[arg-type]  # each value was read as its field's type


def _read(name: str, text: str, kind: type) -> object:
    try:
        return kind(text)
    except ValueError as wrong:
        raise ValueError(f"{name}={text!r} is not {kind.__name__}") from wrong
