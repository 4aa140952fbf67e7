"""Services: requests that are kept running as jobs, behind one address."""
