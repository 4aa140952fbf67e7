"""The node agent: brings a node to the state that the portal desires, and reports its state."""
