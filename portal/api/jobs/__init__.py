"""REST: jobs, their actions, logs, events and dry run."""
