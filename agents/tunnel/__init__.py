"""Many streams of bytes over one WebSocket: what the portal and the agent share."""
