"""The only code that calls pynvml. Returns `agents.facts`; raises `errors.NvmlFailure`."""
