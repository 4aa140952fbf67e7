"""MindSpore's dynamic cluster: one worker per replica, and the scheduler beside that of rank 0.

Source of MS_*: MindSpore's manual, "Dynamic Cluster Startup". The scheduler is the same program
with another MS_ROLE; it ends when the workers have. `msrun` would do the same, but hides the output
of the workers in files and puts their command through a shell without quotes. The log of the
scheduler is in HOME: the folder where the program starts may be code, which is read-only.
"""

from collections.abc import Mapping

from agents.contract.launcher_names import LauncherName
from agents.launchers.base import Launch, Launcher

PROGRAM = "mindspore.sh"
# MS_SCHED_HOST has to be an IP address.
TEXT = """\
#!/bin/sh
found=$(getent hosts "$MS_SCHED_HOST" 2>/dev/null | { read -r address _ && echo "$address"; })
export MS_SCHED_HOST="${found:-$MS_SCHED_HOST}"
scheduler= worker= stopped=
trap 'stopped=1; kill -TERM $worker $scheduler 2>/dev/null' TERM INT
if [ "$MS_NODE_ID" = 0 ]; then
    MS_ROLE=MS_SCHED "$@" >"${HOME:-.}/scheduler.log" 2>&1 &
    scheduler=$!
fi
MS_ROLE=MS_WORKER "$@" &
worker=$!
# A signal may have come before their numbers were known.
[ -z "$stopped" ] || kill -TERM $worker $scheduler 2>/dev/null
wait $worker
code=$?
# A signal interrupts the wait: the worker may still write its checkpoint.
while kill -0 $worker 2>/dev/null; do wait $worker; code=$?; done
if [ -n "$scheduler" ]; then
    [ $code = 0 ] || kill -TERM $scheduler 2>/dev/null
    wait $scheduler
fi
exit $code
"""


class MindsporeLauncher(Launcher):
    name = LauncherName.MINDSPORE
    summary = "MindSpore's dynamic cluster, one worker per replica"
    starts_several = False
    keeps_command = True
    variables = frozenset(
        ("MS_ROLE", "MS_WORKER_NUM", "MS_SCHED_HOST", "MS_SCHED_PORT", "MS_NODE_ID")
    )
    sets = frozenset(("MS_ROLE",))

    def environment(self, launch: Launch) -> dict[str, str]:
        return {
            "MS_WORKER_NUM": str(launch.replica.world),
            "MS_SCHED_HOST": launch.rendezvous.address,
            "MS_SCHED_PORT": str(launch.rendezvous.port),
            "MS_NODE_ID": str(launch.replica.rank),
        }

    def command(self, launch: Launch) -> list[str]:
        words = list(launch.replica.command)
        return ["sh", str(launch.folder / PROGRAM), *words] if words else []

    def files(self, launch: Launch) -> Mapping[str, str]:
        return {PROGRAM: TEXT}


LAUNCHER = MindsporeLauncher()
