"""What a node reports of a notebook that runs on it."""

from dataclasses import dataclass, field

from agents.contract.codec import rule

# Over two months.
MAX_IDLE_MINUTES = 100_000


@dataclass(frozen=True, slots=True)
class NotebookActivity:
    """Of a server under launcher jupyter that was asked, and said it."""

    # Whole minutes without anything of a kernel or a terminal; 0 while one is at work.
    idle_minutes: int = field(default=0, metadata=rule(minimum=0, maximum=MAX_IDLE_MINUTES))
