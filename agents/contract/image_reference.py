"""Names of images, and patterns of allowed ones: the one grammar for portal, planner and agents.

The grammar is that of Docker (github.com/distribution/reference, `reference.go`):

    reference = name [":" tag] ["@" digest]      name = [host "/"] segment {"/" segment}

A name without a host is one of Docker Hub, as for `docker pull`. An image's id is no name: it is
whatever the node has in its cache, from any registry, so ids are refused.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase

from agents.contract.message import NO_MESSAGE, Message

DEFAULT_HOST = "docker.io"
DEFAULT_TAG = "latest"
MAX_NAME_LENGTH = 255
MAX_LENGTH = 500
ANY = "*"

_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
HOST = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
SEGMENT = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
DIGEST = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
# An id or the beginning of one, with or without its algorithm: Docker takes both for an image.
ID = re.compile(r"(?:sha(?:256|384|512):)?[0-9a-f]{1,128}")
# In a pattern, a segment or a tag may have wildcards; a host may not.
SEGMENT_PATTERN = re.compile(r"[a-z0-9._*?-]+")
TAG_PATTERN = re.compile(r"[A-Za-z0-9._*?-]{1,128}")


class ImageReferenceError(ValueError):
    """The text is no name of an image, or no pattern of names; `message` says what to write."""

    def __init__(self, message: Message) -> None:
        super().__init__(message.text)
        self.message = message


@dataclass(frozen=True, slots=True)
class ImageReference:
    """The parts of a name. `tag` is "latest" where neither tag nor digest is written."""

    host: str
    segments: tuple[str, ...]
    tag: str
    digest: str

    def __str__(self) -> str:
        name = "/".join((self.host, *self.segments))
        tag = f":{self.tag}" if self.tag else ""
        return f"{name}{tag}" + (f"@{self.digest}" if self.digest else "")


def read_image(text: str) -> ImageReference:
    """Raises ImageReferenceError."""
    if ID.fullmatch(text):
        sentence = (
            "%(text)s may be the id of any image on a node: write a name with a tag, such as "
            "registry.example/team/app:1.0"
        )
        raise ImageReferenceError(Message(sentence, text=text[:80]))
    name, tag, digest = _split(text)
    host, segments = _split_host(name)
    _require(HOST, host, "%(text)s is not the host of a registry")
    for segment in segments:
        _require(
            SEGMENT,
            segment,
            "%(text)s is not a part of an image's name: use lower-case letters, digits, and single "
            "dots, hyphens or underscores between them",
        )
    if tag is not None:
        _require(TAG, tag, "%(text)s is not a tag of an image")
    if digest is not None:
        _require(DIGEST, digest, "%(text)s is not a digest, such as sha256:…")
    return ImageReference(host, _in_library(host, segments), _tag(tag, digest), digest or "")


def pinned_image(image: str, digest: str) -> str:
    """The name of the same repository with this digest, whatever its tag or digest was."""
    return f"{_split(image)[0]}@{digest}"


def pattern_problem(pattern: str) -> Message:
    """Why the text is no pattern of images; NO_MESSAGE if it is one."""
    try:
        _read_pattern(pattern)
    except ImageReferenceError as error:
        return error.message
    return NO_MESSAGE


def _require(grammar: re.Pattern[str], text: str, sentence: str) -> None:
    if not grammar.fullmatch(text):
        raise ImageReferenceError(Message(sentence, text=repr(text[:80])))


def is_image_allowed(image: str, patterns: Collection[str]) -> bool:
    """Whether one of the patterns admits the image; none admits what is no name of an image. An
    empty `image`, as plain processes have it, is admitted by `*`.

    `*` admits every image. In any other pattern the host is compared letter for letter, and each
    segment with its own, where `*` and `?` do not cross a `/`; a last segment `*` stands for one or
    more. A pattern without a tag admits `latest`, or every tag if it ends in `*`. Docker ignores
    the tag of an image with a digest, so only a pattern that admits every tag admits it.
    """
    if not image:
        return ANY in patterns
    try:
        reference = read_image(image)
    except ImageReferenceError:
        return False
    return any(_admits(pattern, reference) for pattern in patterns)


def _admits(pattern: str, image: ImageReference) -> bool:
    if pattern == ANY:
        return True
    try:
        host, segments, tag, digest = _read_pattern(pattern)
    except ImageReferenceError:
        return False
    if host != image.host or not _match_segments(segments, image.segments):
        return False
    if digest:
        return digest == image.digest
    if image.digest:
        return tag == ANY
    return fnmatchcase(image.tag, tag)


def _match_segments(patterns: tuple[str, ...], segments: tuple[str, ...]) -> bool:
    if patterns[-1] == ANY and len(segments) > len(patterns):
        segments = segments[: len(patterns)]
    return len(patterns) == len(segments) and all(map(fnmatchcase, segments, patterns))


def _read_pattern(pattern: str) -> tuple[str, tuple[str, ...], str, str]:
    """Host, segments, tag and digest of a pattern."""
    if pattern == ANY:
        return ANY, (ANY,), ANY, ""
    name, tag, digest = _split(pattern)
    host, segments = _split_host(name)
    _require(HOST, host, "%(text)s is not the host of a registry; a host has no wildcards")
    for segment in segments:
        _require(SEGMENT_PATTERN, segment, "%(text)s matches no part of an image's name")
    if tag is not None:
        _require(TAG_PATTERN, tag, "%(text)s matches no tag of an image")
    if digest is not None:
        _require(DIGEST, digest, "%(text)s is not a digest, such as sha256:…")
    if tag is None:
        tag = ANY if name.endswith(ANY) else DEFAULT_TAG
    return host, _in_library(host, segments), tag, digest or ""


def _split(text: str) -> tuple[str, str | None, str | None]:
    """The name, the tag (what follows a colon behind the last slash) and the digest. Raises
    ImageReferenceError if they are too long."""
    if len(text) > MAX_LENGTH:
        sentence = "the name of an image has at most %(most)s characters"
        raise ImageReferenceError(Message(sentence, most=MAX_LENGTH))
    rest, at, digest = text.partition("@")
    head, slash, last = rest.rpartition("/")
    last, colon, tag = last.partition(":")
    name = head + slash + last
    if len(name) > MAX_NAME_LENGTH:
        sentence = "the name of an image without its tag has at most %(most)s characters"
        raise ImageReferenceError(Message(sentence, most=MAX_NAME_LENGTH))
    return name, tag if colon else None, digest if at else None


def _split_host(name: str) -> tuple[str, tuple[str, ...]]:
    """As Docker does: what stands before the first slash is a host if it looks like one."""
    first, slash, rest = name.partition("/")
    looks_like_host = set(first) & {".", ":"} or first == "localhost" or first != first.lower()
    if not slash or not looks_like_host:
        return DEFAULT_HOST, tuple(name.split("/"))
    host = DEFAULT_HOST if first == "index.docker.io" else first
    return host, tuple(rest.split("/"))


def _in_library(host: str, segments: tuple[str, ...]) -> tuple[str, ...]:
    """Docker's own images, such as `python`, are those of `library` on Docker Hub."""
    is_short = host == DEFAULT_HOST and len(segments) == 1 and segments != (ANY,)
    return ("library", *segments) if is_short else segments


def _tag(tag: str | None, digest: str | None) -> str:
    if tag is not None:
        return tag
    return "" if digest else DEFAULT_TAG
