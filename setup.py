"""The packages of the wheel. In it, `templates/` lies inside `portal/`: pages need no checkout."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["agents*", "portal*", "scheduler*"]),
        "portal.templates",
    ],
    package_dir={"portal.templates": "templates"},
)
