"""A comparison as lines of text: the cluster as it is beside the changed one."""

from collections.abc import Iterator

from scheduler.what_if.comparison import Comparison, figures

WORDS = {
    "ended": "jobs that ended",
    "left_waiting": "still waiting at the end",
    "refused": "refused, could never run",
    "withdrawn": "withdrawn while waiting",
    "mean_wait_seconds": "wait, mean",
    "p50_wait_seconds": "wait, half of them",
    "p95_wait_seconds": "wait, 95 of 100",
    "longest_wait_seconds": "wait, longest",
    "allocated": "GPUs allocated",
    "gpus": "GPUs there",
    "preemptions": "preemptions",
}


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    yield f"{comparison.baseline.jobs} jobs; changed: {', '.join(comparison.changes) or 'nothing'}"
    yield ""
    yield _row("", "as it is", "changed", "difference")
    before, after = figures(comparison.baseline), figures(comparison.changed)
    for name, words in WORDS.items():
        yield _numbers(words, name, before[name], after[name])
    groups = (
        ("of project", comparison.baseline.waits_by_project, comparison.changed.waits_by_project),
        (
            "of priority",
            comparison.baseline.waits_by_priority,
            comparison.changed.waits_by_priority,
        ),
    )
    for word, one, other in groups:
        for key in sorted({*one, *other}):
            pair = (side[key].mean_seconds if key in side else 0 for side in (one, other))
            yield _numbers(f"mean wait {word} {key}", "wait_seconds", *pair)
    models = comparison.baseline.allocated_by_model, comparison.changed.allocated_by_model
    for model in sorted({*models[0], *models[1]}):
        pair_of = (side.get(model, 0.0) for side in models)
        yield _numbers(f"allocated of {model}", "allocated", *pair_of)
    for code in sorted({*comparison.baseline.held_for, *comparison.changed.held_for}):
        held = (side.held_for.get(code, 0) for side in (comparison.baseline, comparison.changed))
        yield _numbers(f"waited for {code}", "wait_seconds", *held)
    yield ""
    yield _accuracy(comparison)


def _accuracy(found: Comparison) -> str:
    seen = found.accuracy
    if not seen.jobs:
        return "No job started in this time: the replay cannot be compared with what happened."
    recorded, replayed = seen.recorded_mean_seconds, seen.replayed_mean_seconds
    return (
        f"Of {seen.jobs} jobs the mean wait was {_time(recorded)}; "
        f"replayed on the cluster as it is it comes to {_time(replayed)}."
    )


def _numbers(words: str, name: str, before: float, after: float) -> str:
    read = _part if name == "allocated" else _time if "seconds" in name else _count
    difference = after - before
    sign = "+" if difference > 0 else "-" if difference < 0 else ""
    return _row(words, read(before), read(after), sign + read(abs(difference)))


def _row(words: str, *cells: str) -> str:
    return f"{words:<36}" + "".join(f"{cell:>14}" for cell in cells).rstrip()


def _part(part: float) -> str:
    return f"{100 * part:.1f} %"


def _count(number: float) -> str:
    return f"{number:.0f}"


def _time(seconds: float) -> str:
    """Such as 2d 03:15:07."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    clock = f"{hour:02}:{minute:02}:{second:02}"
    return f"{days}d {clock}" if days else clock
