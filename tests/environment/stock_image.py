"""An image as registries have them, made of the files of Debian packages: Python and pip, an
entrypoint with arguments, a working directory and a home of root's, variables of its own."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from tests.environment import debian
from tests.environment.base_images import LIBRARIES, BaseImage, library

PYTHON, PIP = Path("/usr/bin/python3"), Path(debian.PIP.program)
# For everyone, as images have some.
OPEN_FOLDER = "/srv/data"

ENTRYPOINT = b"""#!/bin/sh
set -e
exec python3 /srv/app/serve.py "$@"
"""
# As programs of users begin: it fetches a package from an index, and uses it.
SERVE = b"""
import hashlib, http.server, json, os, pathlib, subprocess, sys, threading

WHEEL = pathlib.Path("/srv/app/greeting-1.0-py3-none-any.whl")
PAGE = f'<a href="/{WHEEL.name}">{WHEEL.name}</a>'.encode()

class Index(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        is_wheel = self.path.endswith(".whl")
        content = WHEEL.read_bytes() if is_wheel else PAGE
        self.send_response(200)
        self.send_header("Content-Type", "application/zip" if is_wheel else "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "max-age=600")
        self.send_header("ETag", '"' + hashlib.sha256(content).hexdigest() + '"')
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass

if "--help" not in sys.argv:
    print(json.dumps(sys.argv[1:]))
    sys.exit()
index = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
threading.Thread(target=index.serve_forever, daemon=True).start()
words = [sys.executable, "-m", "pip", "install", "--user", "--no-compile", "greeting"]
words += ["--index-url", f"http://127.0.0.1:{index.server_port}/simple"]
# Else it caches nothing of an index without TLS.
words += ["--trusted-host", "127.0.0.1", "--disable-pip-version-check"]
pip = subprocess.run(words, capture_output=True, text=True)
cache = pathlib.Path.home() / ".cache" / "pip"
code = "import greeting, getpass; print(greeting.TEXT, getpass.getuser())"
used = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
print(json.dumps({
    "arguments": sys.argv[1:],
    "folder": os.getcwd(),
    "may_write_there": os.access(".", os.W_OK),
    "own_variable": os.environ.get("BAKED"),
    "is_cached": any(path.is_file() for path in cache.rglob("*")),
    "warnings": [line for line in pip.stderr.splitlines() if "cache" in line],
    "used": used.stdout.split(),
    "errors": [each.stderr for each in (pip, used) if each.returncode],
}))
"""


def stock_image() -> BaseImage:
    """Started by `docker-entrypoint.sh --baked`, with `--help` as its own arguments."""
    version = PYTHON.resolve().name
    return BaseImage(
        "tessera-stock:1",
        programs=(PYTHON,),
        folders=(
            (f"usr/lib/{version}", Path("/usr/lib") / version),
            (str(PIP).lstrip("/"), PIP),
            *((f"lib/{name}", library(name)) for name in LIBRARIES),
        ),
        files={
            "usr/local/bin/docker-entrypoint.sh": ENTRYPOINT,
            "srv/app/serve.py": SERVE,
            "srv/app/greeting-1.0-py3-none-any.whl": _wheel(),
        },
        open_folders=(OPEN_FOLDER.lstrip("/"),),
        changes=(
            "ENV PATH=/usr/local/bin:/usr/bin:/bin HOME=/root BAKED=yes",
            # Debian's Python would install nothing beside its packages.
            "ENV PIP_BREAK_SYSTEM_PACKAGES=1",
            "WORKDIR /srv/app",
            'ENTRYPOINT ["docker-entrypoint.sh", "--baked"]',
            'CMD ["--help"]',
        ),
    )


def _wheel() -> bytes:
    """The smallest wheel: a module with one line."""
    about = "greeting-1.0.dist-info"
    wheel = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {
        "greeting.py": "TEXT = 'hello'\n",
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n",
        f"{about}/WHEEL": wheel,
        f"{about}/RECORD": "",
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return packed.getvalue()
