"""The Queue page: waiting jobs in planner order, each with its reason."""
