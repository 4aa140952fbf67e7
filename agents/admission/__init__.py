"""What this node refuses on its own account, whatever the portal desires."""
