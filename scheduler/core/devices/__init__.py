"""From a device request to the kinds of slice that could serve it."""
