"""Code of jobs from git repositories, which their node fetches."""
