"""Turns the Docker SDK's errors into those of the runtime interface."""

import contextlib
from collections.abc import Iterator

from docker.errors import DockerException

from agents.runtime.base import EngineUnreachable, RuntimeFailure


@contextlib.contextmanager
def engine_errors(action: str) -> Iterator[None]:
    """Raises RuntimeFailure for a refusal of the engine, and EngineUnreachable if it does not
    answer (an OSError of the SDK)."""
    try:
        yield
    except DockerException as error:  # APIError, a refusal, is an OSError too
        explanation = getattr(error, "explanation", None) or str(error)
        raise RuntimeFailure("docker", f"Docker refused to {action}: {explanation}") from error
    except OSError as error:
        raise EngineUnreachable(
            f"Docker did not answer the request to {action}: {error}"
        ) from error
