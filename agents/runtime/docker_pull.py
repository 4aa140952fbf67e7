"""Pulls an image through a Docker Engine, with its progress, so that it can be given up at once.

The engine pulls for as long as the request is open: closing it ends the downloads that no other
pull shares (moby, distribution/xfer/transfer.go).
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

from docker import APIClient, auth
from docker.errors import DockerException, ImageNotFound
from docker.types import CancellableStream
from docker.utils import parse_repository_tag
from requests import RequestException, Response
from urllib3.exceptions import HTTPError

from agents.contract.pulls import MAX_WORDS, ObservedPull, PullCause
from agents.contract.registries import RegistryCredential
from agents.facts.images import WantedImage
from agents.images.digests import image_digests
from agents.images.records import ImageRecords
from agents.runtime.image_pull import PullFailure, pull_cause
from agents.runtime.pull_progress import PullTally

CONNECT_SECONDS = 60
# Of a registry, to a question about one manifest.
ANSWER_SECONDS = 60
# The longest silence of a stream. The node gives up a silent pull long before; this only ends the
# thread that it leaves behind.
READ_SECONDS = 3_600


class DockerPull:
    """One request to pull `image`, by a project's credential for this request alone; without one,
    by those of the machine's Docker client."""

    def __init__(
        self,
        api: APIClient,
        image: WantedImage,
        records: ImageRecords,
        credential: RegistryCredential | None = None,
        on_growth: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_growth` is called when new layers have come."""
        self.image = image
        self._api = api
        self._records = records
        self._credential = credential
        self._on_growth = on_growth
        self._stream: CancellableStream[bytes] | None = None
        self._lock = threading.Lock()
        self._cancelled = False

    def run(self, report: Callable[[ObservedPull, bool], None]) -> None:
        try:
            is_here = self._is_here()
            if not is_here:
                self._download(report)
            # A stream that breaks off looks as one that is complete.
            found = self._inspect()
            self._records.add_pull(
                str(found["Id"]), self.image, signed_in=self._credential is not None
            )
            if not is_here:
                self._on_growth()
        except (RequestException, HTTPError, OSError) as error:
            raise PullFailure(PullCause.ENGINE_AWAY, _short(str(error))) from error
        except DockerException as error:
            raise _failure(str(error)) from error

    def cancel(self) -> None:
        """A request that has no response yet is closed as soon as it gets one."""
        with self._lock:
            self._cancelled = True
            stream = self._stream
        if stream is not None:
            with contextlib.suppress(DockerException, OSError, AttributeError):
                stream.close()

    def _is_here(self) -> bool:
        """Whether the registry grants the project what is here already.

        Asked before each pull that could end without a word of the registry: the engine has a copy
        of each manifest that it pulled, and asks for none that is named by its digest."""
        try:
            found = self._inspect()
        except ImageNotFound:
            found = None
        name = self.image.name
        if found is None and "@" not in name:
            return False
        answer = self._api.get(
            f"{self._api.base_url}/v{self._api.api_version}/distribution/{name}/json",
            headers=self._headers(),
            timeout=(CONNECT_SECONDS, ANSWER_SECONDS),
        )
        if not answer.ok:
            raise _failure(_explanation(answer))
        digest = str(answer.json()["Descriptor"]["digest"])
        return found is not None and digest in image_digests(found, name)

    def _download(self, report: Callable[[ObservedPull, bool], None]) -> None:
        if self._credential is not None:
            self._records.begin_pull(self.image)
        tally = PullTally()
        with self._request() as response:
            for event in self._events(response):
                if words := event.get("error"):
                    raise _failure(str(words))
                tally.add(event)
                report(tally.progress(), tally.is_queued())

    def _inspect(self) -> dict[str, Any]:
        """Raises ImageNotFound."""
        found: dict[str, Any] = self._api.inspect_image(  # type: ignore[no-untyped-call]
            self.image.name
        )
        return found

    def _headers(self) -> dict[str, str | bytes]:
        if self._credential is None:
            registry, _ = auth.resolve_repository_name(parse_repository_tag(self.image.name)[0])
            header = auth.get_config_header(self._api, registry)
            return {"X-Registry-Auth": header} if header else {}
        login = {"username": self._credential.user, "password": self._credential.password}
        return {"X-Registry-Auth": auth.encode_header(login)}

    def _request(self) -> Response:
        """The response whose body is the progress. Raises PullFailure for a refusal."""
        repository, tag = parse_repository_tag(self.image.name)
        response = self._api.post(
            f"{self._api.base_url}/v{self._api.api_version}/images/create",
            params={"fromImage": repository, "tag": tag or "latest"},
            headers=self._headers(),
            stream=True,
            timeout=(CONNECT_SECONDS, READ_SECONDS),
        )
        if response.ok:
            return response
        with response:
            raise _failure(_explanation(response))

    def _events(self, response: Response) -> Iterator[dict[str, Any]]:
        """The objects of the stream, until it ends or the pull is given up."""
        chunks = response.raw.stream(4_096, decode_content=True)
        with self._lock:
            if self._cancelled:
                return
            self._stream = CancellableStream(chunks, response)
        rest = b""
        # A closed stream ends like a complete one.
        for chunk in self._stream:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line.strip():
                    yield json.loads(line)
        if rest.strip() and not self._cancelled:
            yield json.loads(rest)


def _explanation(response: Response) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {response.status_code}"


def _failure(words: str) -> PullFailure:
    return PullFailure(pull_cause(words), _short(words))


def _short(words: str) -> str:
    return " ".join(words.split())[:MAX_WORDS]
