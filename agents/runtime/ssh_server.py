"""An SSH server in a replica, for one connection: OpenSSH's `sshd -i` of the replica itself, as the
user that the replica runs as, on its standard input and output.

Its files lie in a folder that only this user reads, until it ends.
Whoever starts it writes the server's key and an empty line; the first line that comes back is the
user's login name, and all that follows is SSH.
"""

from typing import Protocol

# Exit codes of the script: no sshd (as shells say it of any program), or no place for its files.
SSHD_MISSING_CODES = (126, 127)
# Of both runtimes: how much of its messages is kept for the agent's log.
MAX_MESSAGE_BYTES = 1_000

# $1: the only key that is let in, as a line of authorized_keys. $2: the folder. The variables of
# the job and its umask are those of its sessions, too, though sshd gives them none; a session
# starts where the job started. Connections go from the client to the job alone: what listens for
# the job on the client's machine would be a way around the egress of its project. A server that is
# root, as a plain process of an agent that is root, wants a folder of the machine.
SCRIPT = r"""
export PWD
variables=$(export -p)
mask=$(umask)
umask 077
folder=$2 server=
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin
program=$(command -v sshd)
case $program in /*) ;; *) exit 127 ;; esac
mkdir "$folder" || exit 1
trap '[ -n "$server" ] && kill "$server" 2>/dev/null; rm -rf "$folder"' EXIT
trap 'exit 129' HUP INT TERM
printf '%s\n' "$variables" "umask $mask" >"$folder/variables"
near=${program%/*/*}
for sftp in "$near/libexec/sftp-server" "$near/lib/openssh/sftp-server" \
  /usr/lib/openssh/sftp-server /usr/libexec/openssh/sftp-server /usr/lib/ssh/sftp-server
do [ -x "$sftp" ] && break; done
[ "$(id -u)" != 0 ] || [ -d /run/sshd ] || mkdir -m 755 /run/sshd
while IFS= read -r line && [ -n "$line" ]; do printf '%s\n' "$line"; done >"$folder/host_key"
printf '%s\n' "$1" >"$folder/authorized_keys"
cat >"$folder/session" <<'END'
term=$TERM
. "${0%/*}/variables"
[ -n "$term" ] && export TERM="$term"
cd "$PWD"
for SHELL in /bin/bash /bin/sh; do [ -x "$SHELL" ] && break; done
export SHELL
[ -n "$SSH_ORIGINAL_COMMAND" ] && exec "$SHELL" -c "$SSH_ORIGINAL_COMMAND"
exec "$SHELL"
END
cat >"$folder/config" <<END
HostKey "$folder/host_key"
AuthorizedKeysFile "$folder/authorized_keys"
AuthenticationMethods publickey
StrictModes no
PidFile none
LogLevel ERROR
LoginGraceTime 30
AllowTcpForwarding local
AllowStreamLocalForwarding local
AllowAgentForwarding no
X11Forwarding no
PrintMotd no
PrintLastLog no
Subsystem sftp $sftp
ForceCommand exec /bin/sh '$folder/session'
END
[ -z "$TESSERA_TERMINAL" ] || echo "SetEnv TESSERA_TERMINAL=$TESSERA_TERMINAL" >>"$folder/config"
id -un
exec 3<&0
"$program" -i -e -f "$folder/config" <&3 3<&- &
server=$!
exec </dev/null >/dev/null 3<&-
wait "$server"
"""


def server_command(client_key: str, folder: str) -> list[str]:
    """`client_key`: the kind and the key in base64. `folder`: one that is not there."""
    return ["/bin/sh", "-c", SCRIPT, "tessera-ssh", client_key, folder]


class SshServer(Protocol):
    """Its bytes, and whatever it started."""

    async def read(self) -> bytes:
        """What it sent next; b"" once it has ended."""

    async def write(self, data: bytes) -> None:
        """Returns once it has been taken; no effect once the server has ended."""

    async def end(self) -> None:
        """No more for it to read: it ends."""

    def abort(self) -> None:
        """No effect: `close` ends it."""

    async def failure(self) -> tuple[int, str]:
        """After its end: the exit code, and its last words."""

    async def close(self) -> None:
        """End it, with all that it started, and remove its files."""
