"""The page of one job: status panel, timeline, tabs and event stream."""
