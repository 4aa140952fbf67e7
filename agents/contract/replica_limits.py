"""The most that one replica may have."""

# 2 PB: a job's folder may be on a file system that spans many machines.
MAX_DISK_MIB = 2_000_000_000
# Processes of one replica.
MAX_PROCESSES = 64
