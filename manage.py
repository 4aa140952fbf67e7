#!/usr/bin/env python
"""Django's command line in a checkout; `manage.py demo` starts the whole product on one machine."""

from portal.__main__ import main

if __name__ == "__main__":
    main()
