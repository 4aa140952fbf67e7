"""The portal: stores what users submit, and serves pages, REST and the agents.

Import nothing here: `portal.cli` runs where neither Django nor Celery is installed.
"""
