"""What the engine refuses, and its silence, in the words of the runtime's contract."""

import contextlib
from collections.abc import Iterator

from docker.errors import DockerException

from agents.runtime.base import EngineUnreachable, RuntimeFailure


@contextlib.contextmanager
def engine_errors(action: str) -> Iterator[None]:
    """The engine's refusal as RuntimeFailure, its silence (an OSError of the SDK) as EngineAway."""
    try:
        yield
    except DockerException as error:  # APIError, a refusal, is an OSError too
        explanation = getattr(error, "explanation", None) or str(error)
        raise RuntimeFailure("docker", f"Docker refused to {action}: {explanation}") from error
    except OSError as error:
        raise EngineUnreachable(f"Docker did not answer, asked to {action}: {error}") from error
