"""The Jobs page: a filtered list, its CSV export and its event stream."""
