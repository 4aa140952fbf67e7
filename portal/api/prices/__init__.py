"""REST: prices of devices."""
