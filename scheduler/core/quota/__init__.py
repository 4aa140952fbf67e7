"""What owners may have: limits, borrowing, budgets, caps, and what is taken back.

ClusterSnapshot ─▶ Accounts ─▶ reason(job, units, model) ─▶ Reason | None
                      ├ pools: nominal, lent, borrowed     ├ budgets: GPU-hours of a window
                      └ reclaim ─▶ whom to stop            └ caps: how many jobs at once
"""
