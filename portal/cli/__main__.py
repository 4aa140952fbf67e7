"""`python -m portal.cli`, the same as `tessera`."""

from portal.cli.main import app

if __name__ == "__main__":
    app(prog_name="tessera")
