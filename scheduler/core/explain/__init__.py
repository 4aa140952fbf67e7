"""Why a job waits, and what would start sooner."""
