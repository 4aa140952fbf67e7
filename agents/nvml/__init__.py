"""The only code that talks to pynvml: typed facts out, one error in (`session.NvmlFailure`)."""
