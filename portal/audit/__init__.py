"""History: status changes of jobs and devices, and privileged changes by people."""
