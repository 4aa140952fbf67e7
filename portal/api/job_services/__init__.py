"""Services: requests that are kept running behind one address."""
