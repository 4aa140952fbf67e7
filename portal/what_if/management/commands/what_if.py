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
from portal.what_if.services import what_if_compare, what_if_run
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

# Option, how a word of it is read, and its help.
OPTIONS: dict[str, tuple[Callable[[str], ClusterChange], str]] = {
    "quota": (parse_quota, "PROJECT[/USER][:MODEL]=GPUS held at most, such as vision=16"),
    "nodes": (parse_nodes, "COUNT:NODE, so many more like this one, such as 2:node-a"),
    "without": (NodeRemoved, "NODE, as if it were not there"),
    "layout": (
        parse_layout,
        "NODE/INDEX=PROFILE+PROFILE, this GPU keeps these slices, such as node-a/0=3g.71gb+3g.71gb",
    ),
    "mode": (parse_mode, "MODEL=MODE that its GPUs begin in, such as H200=mig"),
    "policy": (parse_policy, "OPTION=VALUE of the planner, such as backfill=conservative"),
}
# Who plans and drives goes first.
NICE = 10
# As shells count an end by SIGTERM.
STOPPED = 143


class Command(BaseCommand):
    help = (
        "Replay the last days' jobs on a changed cluster, beside the cluster as it is. Nothing of "
        "the cluster changes. Each change may be given several times; they are made one after "
        "another in the order of this list. 5,000 jobs on 32 GPUs take some minutes."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--days", type=int, default=7, help="1 to 90, by default 7")
        for name, (_, told) in OPTIONS.items():
            parser.add_argument(
                f"--{name}", action="append", default=[], metavar="CHANGE", help=told
            )
        parser.add_argument("--json", action="store_true", help="one object instead of a table")
        parser.add_argument("--row", type=int, help="answer this stored question, say nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["row"] is not None:
            os.nice(NICE)
            # Who is told to stop says so in the row, so that nobody waits for it.
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(STOPPED))
            what_if_run(what_if_id=options["row"])
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
