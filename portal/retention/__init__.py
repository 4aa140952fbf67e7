"""What is removed after a time: logs and events of ended jobs. The audit trail stays."""
