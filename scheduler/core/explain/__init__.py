"""Why a job waits, and which changed request would start now."""
