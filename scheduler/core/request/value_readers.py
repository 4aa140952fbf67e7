"""Fields whose value alone is read, with the value that they have where they are left out."""

from collections.abc import Callable, Mapping
from typing import Any

from scheduler.core.request.apps import read_apps
from scheduler.core.request.arrays import read_array, read_sweep
from scheduler.core.request.conditions import read_after, read_notify
from scheduler.core.request.program import read_code, read_env
from scheduler.core.request.values import Refuse
from scheduler.core.request.volumes import read_volumes

VALUE_READERS: Mapping[str, tuple[Callable[[Any, Refuse], Any], Any]] = {
    "code": (read_code, ""),
    "env": (read_env, {}),
    "volumes": (read_volumes, []),
    "apps": (read_apps, []),
    "after": (read_after, []),
    "array": (read_array, ""),
    "sweep": (read_sweep, []),
    "notify": (read_notify, []),
}
