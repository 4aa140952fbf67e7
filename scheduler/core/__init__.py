"""The pure planner: values in, values out. No clock, no settings, no database, no network."""
