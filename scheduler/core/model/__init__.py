"""The planner's values: snapshot, decisions, states, reasons, policy and sentences."""
