"""The planner's values: snapshot in, plan out, policy, reasons, messages and state machines."""
