"""Apps of jobs: ports of running jobs, served on hosts of their own."""
