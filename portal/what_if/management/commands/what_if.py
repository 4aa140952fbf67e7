"""`manage.py what_if --days 7 --quota vision=16`: last week on another cluster, as a table."""

import json
import os
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from portal.errors import Refused
from portal.what_if.services import what_if_compare, what_ifs_run_waiting
from portal.what_if.table import comparison_lines
from scheduler.what_if.changes import ClusterChange, NodeRemoved
from scheduler.what_if.errors import ChangeRefusedError
from scheduler.what_if.json_format import (
    parse_layout,
    parse_mode,
    parse_nodes,
    parse_policy,
    parse_quota,
)

# Option: parser of its value, and its help.
OPTIONS: dict[str, tuple[Callable[[str], ClusterChange], str]] = {
    "quota": (parse_quota, "PROJECT[/USER][:MODEL]=GPUS held at most, such as vision=16"),
    "nodes": (parse_nodes, "COUNT:NODE, this many more nodes like NODE, such as 2:node-a"),
    "without": (NodeRemoved, "NODE, without this node"),
    "layout": (
        parse_layout,
        "NODE/INDEX=PROFILE+PROFILE, this GPU keeps these slices, such as node-a/0=3g.71gb+3g.71gb",
    ),
    "mode": (parse_mode, "MODEL=MODE in which its GPUs begin, such as H200=mig"),
    "policy": (parse_policy, "OPTION=VALUE of the planner, such as backfill=conservative"),
}
# The planner and the driver go first.
NICE = 10
# The exit status of a process ended by SIGTERM.
STOPPED = 143


class Command(BaseCommand):
    help = (
        "Replay the jobs of the last days on a changed cluster, beside the cluster as it is. The "
        "cluster does not change. An option may be repeated; changes are applied in the order of "
        "this list. 5,000 jobs on 32 GPUs take some minutes."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--days", type=int, default=7, help="1 to 90, by default 7")
        for name, (_, text) in OPTIONS.items():
            parser.add_argument(
                f"--{name}", action="append", default=[], metavar="CHANGE", help=text
            )
        parser.add_argument(
            "--json", action="store_true", help="print one JSON object instead of a table"
        )
        parser.add_argument(
            "--waiting",
            action="store_true",
            help="run the stored what-ifs that wait, and print nothing",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["waiting"]:
            _run_waiting()
            return
        with tqdm(unit="job", disable=not sys.stderr.isatty()) as bar:

            def progress(done: int, of: int) -> None:
                bar.total = of
                bar.update(done - bar.n)

            try:
                changes = [
                    read(word) for name, (read, _) in OPTIONS.items() for word in options[name]
                ]
                actor = "manage.py"
                found = what_if_compare(
                    days=options["days"], changes=changes, actor=actor, progress=progress
                )
            except (Refused, ChangeRefusedError) as refused:
                raise CommandError(refused.sentence, returncode=2) from refused
        if options["json"]:
            self.stdout.write(json.dumps(asdict(found)))
            return
        for line in comparison_lines(found):
            self.stdout.write(line)


def _run_waiting() -> None:
    os.nice(NICE)
    # On SIGTERM the row becomes failed, so that no user waits for it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(STOPPED))
    what_ifs_run_waiting()
