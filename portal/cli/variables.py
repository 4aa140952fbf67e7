"""The variables of `tessera`, declared."""

from dataclasses import dataclass

from agents.configuration.declaration import Secrecy, SettingReader, setting

CLI = SettingReader.COMMAND_LINE


@dataclass(frozen=True, slots=True)
class CommandLineVariables:
    """Each wins over what `tessera login` saved."""

    url: str = setting("", "The portal's address.", readers=CLI)
    token: str = setting("", "A token of the user.", secrecy=Secrecy.WHOLE, readers=CLI)
    project: str = setting("", "The project of jobs that name none.", readers=CLI)
    ca_file: str = setting(
        "", "Certificate authorities to trust (PEM), instead of the system's.", readers=CLI
    )
    proxy: str = setting(
        "",
        "An HTTP proxy on the way to the portal, instead of that of HTTPS_PROXY.",
        secrecy=Secrecy.URL,
        readers=CLI,
    )
    image: str = setting("", "The image of jobs that name none.", readers=CLI)
    config: str = setting(
        "", "The file of saved values. Empty: `~/.config/tessera/config.yaml`.", readers=CLI
    )
