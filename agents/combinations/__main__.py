"""`python -m agents.combinations`: the table of docs/combinations.md."""

import json
import sys
from collections.abc import Iterator

from agents.combinations.combination import CombinationCode
from agents.combinations.table import COMBINATIONS

HEAD = ("Combination", "Verdict", "Sentence, by an example", "Changes that mend it", "Source")
# They depend on the command.
OWN_CHANGES = {CombinationCode.LAUNCHER_IN_COMMAND: "launcher, command and processes"}


def table_lines() -> Iterator[str]:
    yield _line(*HEAD)
    yield _line(*["---"] * len(HEAD))
    for row in COMBINATIONS:
        changes = row.changes(row.example)
        mended = f"`{json.dumps(dict(changes))}`" if changes else OWN_CHANGES.get(row.code, "none")
        what = f"{row.what} (`{row.code}`)"
        yield _line(what, str(row.verdict), row.sentence(row.example).text, mended, row.source)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.stdout.write("\n".join([*table_lines(), ""]))
