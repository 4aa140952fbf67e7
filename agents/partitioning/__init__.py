"""Partition changes: what differs, whose it is, what to do of it now, and what became of it.

desired ─▶ diff ─▶ steps ─▶ carry ─▶ nvml        survey: whose instances stand there
                     ▲        │                  patience: when a GPU that refuses is tried again
                     └─ carver ┘                 blame: who holds it; cdi: what engines are told
"""
