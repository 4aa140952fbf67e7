"""What is removed after a time: logs, events and files of ended jobs. The audit trail stays."""
