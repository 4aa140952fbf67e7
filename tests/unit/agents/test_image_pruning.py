"""What is removed when images are beyond their limit, and what never is."""

import pytest

from agents.admission.policy import NodePolicy, PolicyError, read_policy
from agents.facts.images import WantedImage
from agents.images.pruning import FRESH_SECONDS, CachedImage, removable_images
from agents.images.records import ImageRecord, ImageRecords, RecordsUnreadable

NOW = 1_000_000.0
OLD, OLDER, FRESH = NOW - FRESH_SECONDS - 1, NOW - FRESH_SECONDS - 9, NOW - FRESH_SECONDS + 1


def image(name, *, used=False, tags=()):
    digest = f"{name.rpartition(':')[0]}@sha256:{'1' * 64}"
    return CachedImage(f"sha256:{name}", (name, *tags, digest), used)


def records(**used_at):
    names = {key: f"r.example/{key}:1" for key in used_at}
    return {f"sha256:{n}": ImageRecord((n,), None, used_at[k]) for k, n in names.items()}


def removed(*images, keep=(), **used_at):
    found = removable_images(images, records(**used_at), keep, NOW)
    return [each.names[0].removeprefix("r.example/") for each in found]


def test_the_least_recently_used_goes_first():
    one, two = image("r.example/a:1"), image("r.example/b:1")
    assert removed(one, two, a=OLD, b=OLDER) == ["b:1", "a:1"]


@pytest.mark.parametrize(
    ("kept", "keep", "used_at"),
    [
        (image("r.example/a:1", used=True), (), OLD),
        (image("r.example/a:1"), (), FRESH),
        (image("r.example/a:1"), ("r.example/a:*",), OLD),
        (image("r.example/a:1", tags=("mine:1",)), (), OLD),
    ],
    ids=["in a container", "just used", "a pattern", "the tag of someone else"],
)
def test_what_is_kept(kept, keep, used_at):
    assert removed(kept, keep=keep, a=used_at) == []


def test_what_the_agent_did_not_pull_is_kept():
    assert removed(image("r.example/owner:1"), a=OLD) == []


def test_records_survive_the_agent_and_a_pull_during_the_look_is_not_forgotten(tmp_path):
    file, now = tmp_path / "images.json", [NOW]
    kept = ImageRecords(file, lambda: now[0])
    kept.add_pull("sha256:a", WantedImage("r.example/a:1", "vision"), signed_in=True)
    began = now[0] = NOW + 5
    kept.add_pull("sha256:a", WantedImage("r.example/a:1", "vision"), signed_in=True)
    kept.forget({"sha256:a"}, unused_since=began)
    again = ImageRecords(file)
    assert again.all() == kept.all()
    assert not again.may_run("sha256:a", ("r.example/a:1",), "speech")
    kept.forget({"sha256:a"}, unused_since=began + 1)
    assert ImageRecords(file).all() == {}
    assert file.stat().st_mode & 0o077 == 0
    file.write_text("{")
    with pytest.raises(RecordsUnreadable, match="remove the images that jobs pulled"):
        ImageRecords(file)


@pytest.mark.parametrize("line", ['image_cache = "much"', 'keep_images = ["a b"]'])
def test_a_policy_that_cannot_be_meant_is_refused(tmp_path, line):
    file = tmp_path / "policy.toml"
    file.write_text(line)
    with pytest.raises(PolicyError, match=line.partition(" ")[0]):
        read_policy(file)
    assert NodePolicy().image_cache == "60%"
