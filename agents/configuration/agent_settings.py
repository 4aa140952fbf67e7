"""The variables of `tessera-agent`, declared. Most are the default of an argument, which wins."""

from dataclasses import dataclass

from agents.configuration.declaration import Secrecy, SettingReader, setting
from agents.configuration.value_kinds import LOG_FORMAT

AGENT = SettingReader.AGENT


@dataclass(frozen=True, slots=True)
class AgentVariables:
    portal_url: str = setting(
        "", "The portal's address; several of one portal with commas. `--portal`", readers=AGENT
    )
    join_token: str = setting(
        "",
        "Enrols the node, once. `--join-token-file`",
        secrecy=Secrecy.WHOLE,
        readers=AGENT,
    )
    node_name: str = setting("", "The node's name. Empty: the host's. `--name`", readers=AGENT)
    ca_file: str = setting(
        "",
        "Certificate authorities to trust (PEM), instead of the system's. `--ca-file`",
        readers=AGENT,
    )
    proxy: str = setting(
        "",
        "An HTTP proxy on the way to the portal. Empty: none, whatever HTTPS_PROXY says. "
        "`--proxy`, without a password",
        secrecy=Secrecy.URL,
        readers=AGENT,
    )
    agent_allow_plain_http: bool = setting(
        False,
        "Call a portal that is not on this machine without TLS. `--allow-plain-http`",
        readers=AGENT,
    )
    agent_var: str = setting(
        "",
        "The agent's folder. Empty: `var/agent`, and `/var/lib/tessera-agent` for the service. "
        "`--var`",
        readers=AGENT,
    )
    agent_address: str = setting(
        "",
        "The node's IP address for other nodes, whose gangs it shares. Empty: that of its way to "
        "the portal. `--address`",
        readers=AGENT,
    )
    runtime: str = setting("docker", "`docker` or `process`. `--runtime`", readers=AGENT)
    agent_disk_folder: str = setting(
        "", "Where jobs write. Empty: the agent's folder. `--disk-folder`", readers=AGENT
    )
    agent_disk_reserve: str = setting(
        "",
        "Kept free for images, logs and the system. Empty: 20 %, at least 10 GiB. `--disk-reserve`",
        readers=AGENT,
    )
    agent_telemetry_seconds: str = setting(
        "10",
        "Between two samples of the sensors, 1 to 3600; 0 turns them off. `--telemetry-seconds`",
        readers=AGENT,
    )
    metrics: str = setting(
        "", "HOST:PORT of the page for Prometheus. Empty: none. `--metrics`", readers=AGENT
    )
    log_format: str = setting(
        "",
        "The form of log lines. Empty: text on a terminal, JSON elsewhere.",
        kind=LOG_FORMAT,
        readers=AGENT,
    )
    mps_control: str = setting("", "The MPS control program. Empty: NVIDIA's.", readers=AGENT)
    simulated_driver: str = setting(
        "", "The state file of a simulated node. Empty: the real driver.", readers=AGENT
    )
    sysfs: str = setting(
        "", "A copy of `/sys` to read instead of the kernel's. `--sysfs`", readers=AGENT
    )
