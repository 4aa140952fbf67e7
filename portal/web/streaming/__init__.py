"""Server-sent events: what the streams of all pages share."""
