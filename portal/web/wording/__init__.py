"""How statuses, reasons, estimates and messages are worded on every page."""
