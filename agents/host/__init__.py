"""The host beneath the driver: its files, processes, disks and ids."""
