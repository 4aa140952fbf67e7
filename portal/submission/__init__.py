"""From a request to a job: dry run, admission, submit, replace, retry and approve."""
