"""What the planner's processes have to read again."""

from django.db import models


class NodeChange(models.Model):
    """The planner's view of a node may have changed. Only triggers write it: see
    `portal.planning.changes`."""

    node_id = models.UUIDField(null=True)
    """Null: of every node."""
    transaction = models.BigIntegerField(default=0, db_index=True)
    """The number of the transaction that made the change; 0 on SQLite, which has none."""
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"change {self.pk} of {self.node_id or 'every node'}"
