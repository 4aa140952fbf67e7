"""The portal: what people want, written down as rows, shown as pages and REST.

Nothing is imported here: `portal.cli` runs where neither Django nor Celery is installed.
"""
