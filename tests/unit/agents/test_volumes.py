"""A node gives jobs folders below the roots of its owner's policy, and nothing outside of them."""

import os
import threading
from dataclasses import replace

import pytest

from agents.admission.local_checks import local_refusal
from agents.admission.policy import NodePolicy, PolicyError, read_policy
from agents.admission.volume_roots import (
    DriverRoot,
    VolumeRoot,
    read_volume_roots,
    volumes_refusal,
)
from agents.contract.documents import RuntimeKind
from agents.contract.volumes import DesiredVolume, offered_access, target_problem
from agents.runtime.base import RuntimeFailure
from agents.runtime.docker_volumes import EngineVolume
from agents.runtime.grants import VolumeMount, no_grant
from agents.volumes.folders import FolderRefused
from agents.volumes.grants import with_volumes
from agents.volumes.root_watch import answer_of
from agents.volumes.roots import VolumeRoots
from agents.volumes.sizes import VolumeSizes, measured
from tests.unit.agents.documents import a_replica


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "srv"
    (folder / "team" / "images").mkdir(parents=True)
    for each in (folder, folder / "team"):
        each.chmod(0o755)
    return folder


def roots_at(folder, **options):
    return VolumeRoots((VolumeRoot("datasets", str(folder), **options),))


def a_volume(**fields):
    return DesiredVolume(
        **{"name": "images", "root": "datasets", "subpath": "team/images", "path": "/data"} | fields
    )


def why_not(roots, **fields):
    with pytest.raises(RuntimeFailure) as caught:
        roots.mount(a_volume(**fields))
    assert caught.value.code == "volume"
    return caught.value.sentence.removeprefix("volume images: ")


def test_a_volume_is_mounted_with_its_access_and_its_path_is_in_the_environment(root):
    replica = a_replica(volumes=(a_volume(), a_volume(name="out-1", path="/out", read_only=False)))
    for runtime, places in (
        (RuntimeKind.DOCKER, ["/data", "/out"]),
        (RuntimeKind.PROCESS, [f"{root}/team/images"] * 2),
    ):
        grant = with_volumes(no_grant, roots_at(root), runtime)(replica, ())
        assert grant.env == dict(
            zip(("TESSERA_VOLUME_IMAGES", "TESSERA_VOLUME_OUT_1"), places, strict=True)
        )
        assert grant.volumes == (
            VolumeMount(f"{root}/team/images", "/data", True),
            VolumeMount(f"{root}/team/images", "/out", False),
        )
    bare = with_volumes(no_grant, roots_at(root), RuntimeKind.DOCKER)
    assert bare(replace(replica, volumes=()), ()) == no_grant(replica, ())


def test_a_link_below_the_root_is_never_followed(root):
    (root / "out").symlink_to("/etc")
    (root / "team" / "up").symlink_to("../..")
    assert "is a link, and links are not followed" in why_not(roots_at(root), subpath="out")
    assert "is a link" in why_not(roots_at(root), subpath="team/up/etc")


def test_a_folder_whose_way_others_may_change_is_refused_with_the_remedy(root):
    (root / "team").chmod(0o777)
    sentence = why_not(roots_at(root))
    assert sentence.startswith(f"others may change {root}/team")
    assert f"chmod go-w {root}/team" in sentence
    (root / "team").chmod(0o755)
    if os.geteuid() == 0:
        os.chown(root / "team", 65_534, 65_534)
        assert "chown root" in why_not(roots_at(root))


def test_what_is_no_folder_or_not_there_is_said(root):
    (root / "file").write_text("")
    assert why_not(roots_at(root), subpath="file") == f"{root}/file is not a folder"
    assert why_not(roots_at(root), subpath="gone") == f"there is no folder {root}/gone"
    assert "offers no root other" in why_not(roots_at(root), root="other")


def test_a_root_that_should_be_mounted_is_not_offered_while_it_is_not(root):
    """Else a job would fill the disk below the mount point."""
    roots = roots_at(root, mounted=True)
    assert roots.offered() == ()
    assert roots.problems() == (
        f"Volumes below datasets cannot be used: nothing is mounted at {root}: mount it again",
    )
    assert "nothing is mounted" in why_not(roots)
    assert roots_at("/proc", mounted=True).problems() == ()


def test_a_file_system_that_hangs_leaves_the_agent_free(root):
    never = threading.Event()
    with pytest.raises(FolderRefused, match="does not answer"):
        answer_of(never.wait, 0.01)
    never.set()


def test_a_node_offers_its_roots_with_their_space_and_access(root):
    (offered,) = roots_at(root, read_only=True).offered()
    assert (offered.name, offered.read_only) == ("datasets", True)
    assert 0 <= offered.free_mib <= offered.total_mib > 0
    assert offered_access([offered]) == ["datasets"]
    (offered,) = roots_at(root).offered()
    assert offered_access([offered]) == ["datasets", "datasets:write"]
    assert roots_at(root / "gone").offered() == ()


def test_a_folder_is_measured_without_following_links(root, tmp_path):
    images = root / "team" / "images"
    (images / "a").write_bytes(b"x" * (1 << 20))
    (images / "sub").mkdir()
    (images / "sub" / "b").write_bytes(b"")
    (tmp_path / "big").mkdir()
    (tmp_path / "big" / "c").write_bytes(b"x" * (65 << 20))
    (images / "sub" / "out").symlink_to(tmp_path / "big")
    size = measured(str(root), "team/images", clock=lambda: 7.0)
    assert (size.mib, size.files, size.is_partial, size.measured_at) == (64, 2, False, 7)
    assert measured(str(root), "team/images", max_entries=1).is_partial


def test_what_was_measured_is_still_known_to_the_next_agent(root, tmp_path):
    file = tmp_path / "sizes.json"
    sizes = VolumeSizes(file)
    sizes.use("datasets", str(root), "team/images")
    sizes.measure_when_due()
    sizes.join("datasets")
    assert [size.subpath for size in VolumeSizes(file).of("datasets")] == ["team/images"]
    file.write_text('[["datasets", 7]]')
    assert VolumeSizes(file).of("datasets") == ()


def test_a_root_that_hangs_leaves_the_sizes_of_the_others(root, tmp_path, monkeypatch):
    never = threading.Event()

    def hangs_at_slow(path, subpath):
        if path == "/slow":
            never.wait()
            raise FolderRefused("it is gone")
        return measured(path, subpath)

    monkeypatch.setattr("agents.volumes.sizes.measured", hangs_at_slow)
    sizes = VolumeSizes(tmp_path / "sizes.json")
    sizes.use("slow", "/slow", "")
    sizes.measure_when_due()
    sizes.use("datasets", str(root), "team/images")
    sizes.measure_when_due()
    sizes.join("datasets")
    assert [size.subpath for size in sizes.of("datasets")] == ["team/images"]
    never.set()
    sizes.join("slow")


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ({"root": "other"}, "offers no root other"),
        ({"read_only": False}, "for reading only"),
        ({"subpath": "../etc"}, "no '..'"),
        ({"subpath": "/etc"}, "below the root"),
        ({"subpath": "a//b"}, "below the root"),
        ({"path": "/"}, "absolute path"),
        ({"path": "/etc/ssl"}, "/etc is needed"),
        ({"path": "/workspace"}, "/workspace is needed"),
    ],
)
def test_the_node_refuses_what_its_owner_does_not_offer(volume, words):
    policy = NodePolicy(volumes=(VolumeRoot("datasets", "/srv", read_only=True),))
    refusal = local_refusal(a_replica(volumes=(a_volume(**volume),)), policy, RuntimeKind.DOCKER)
    assert refusal is not None and words in refusal.sentence
    fine = a_replica(volumes=(a_volume(),))
    refusal = local_refusal(fine, policy, RuntimeKind.DOCKER)
    assert refusal is None or refusal.code != "policy"


@pytest.mark.parametrize(
    "path",
    ["data", "", "/data/", "//data", "/data/../etc", "/a\0b", "/a\nb", "/" + "x" * 255, "/\udcff"],
)
def test_a_path_that_could_be_another_one_is_refused(path):
    assert target_problem(path) is not None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('volumes = "/srv"', "must be a table"),
        ('[volumes]\n"a b" = "/srv"', "name a root with"),
        ('[volumes]\na = "srv"', "must be absolute"),
        ('[volumes]\na = "/"', "not /"),
        ('[volumes]\na = "/srv/../etc"', "without '..'"),
        ("[volumes]\na = 7", "write a path"),
        ('[volumes]\na = { path = "/srv", readonly = true }', "one of path, read_only, mounted"),
        ('[volumes]\na = { path = "/srv", read_only = 1 }', "of its type"),
    ],
)
def test_a_policy_with_a_bad_root_stops_the_agent(tmp_path, text, words):
    file = tmp_path / "policy.toml"
    file.write_text(text)
    file.chmod(0o644)
    with pytest.raises(PolicyError) as caught:
        read_policy(file)
    assert str(caught.value).startswith(f"{file}: volumes") and words in str(caught.value)


def test_roots_are_read_from_the_policy(tmp_path):
    file = tmp_path / "policy.toml"
    file.write_text(
        '[volumes]\nb = "/srv"\na = { path = "/mnt", read_only = true, mounted = true }'
    )
    file.chmod(0o644)
    assert read_policy(file).volumes == (
        VolumeRoot("a", "/mnt", True, True),
        VolumeRoot("b", "/srv"),
    )


class EngineInMemory:
    """As DockerVolumes."""

    def __init__(self, *drivers, **volumes):
        self.names, self.volumes = frozenset(drivers), volumes

    def drivers(self):
        return self.names

    def find(self, name):
        return self.volumes.get(name)


def driver_roots(engine, **options):
    roots = VolumeRoots((DriverRoot("fast", "local", (("device", "/srv/{volume}"),), **options),))
    roots.use_engine(engine)
    return roots


def driver_volume(subpath="images", **fields):
    return a_volume(root="fast", subpath=subpath, **fields)


def test_a_driver_is_offered_only_where_the_engine_has_it():
    (offered,) = driver_roots(EngineInMemory("local"), read_only=True).offered()
    assert (offered.name, offered.driver, offered.read_only) == ("fast", "local", True)
    for engine, why in (
        (EngineInMemory("nfs"), "the Docker Engine has no volume driver local"),
        (None, "this node runs no containers"),
    ):
        roots = driver_roots(engine)
        assert roots.offered() == ()
        assert roots.problems() == (f"Volumes below fast cannot be used: {why}",)


def test_the_policy_fixes_driver_and_options_and_the_portal_names_the_volume():
    mount = driver_roots(EngineInMemory("local")).mount(driver_volume())
    assert (mount.source, mount.target, mount.read_only) == ("tessera_fast_images", "/data", True)
    assert (mount.driver.name, mount.driver.options) == ("local", {"device": "/srv/images"})
    for subpath in ("a/b", "..", "-x", "a b", "x" * 64):
        with pytest.raises(RuntimeFailure, match="write one name as its folder"):
            driver_roots(EngineInMemory("local")).mount(driver_volume(subpath))


def test_a_volume_that_the_engine_has_otherwise_is_not_given_to_a_job():
    label, options = {"tessera.volume": "fast/images"}, {"device": "/srv/images"}
    same = EngineVolume("local", options, label)
    driver_roots(EngineInMemory("local", tessera_fast_images=same)).mount(driver_volume())
    for other, why in (
        (replace(same, labels={}), "not of Tessera"),
        (replace(same, driver="nfs"), "another driver or other options"),
        (replace(same, options={"device": "/etc"}), "another driver or other options"),
    ):
        roots = driver_roots(EngineInMemory("local", tessera_fast_images=other))
        with pytest.raises(RuntimeFailure, match=why):
            roots.mount(driver_volume())


def test_the_policy_says_what_a_driver_needs():
    good = {"driver": "local", "options": {"type": "tmpfs"}, "read_only": True}
    (root,) = read_volume_roots({"fast": good})
    assert root == DriverRoot("fast", "local", (("type", "tmpfs"),), read_only=True)
    for name, keys in (
        ("fa_st", good),
        ("fast", good | {"path": "/srv"}),
        ("fast", good | {"driver": ""}),
        ("fast", good | {"options": {"size": 1}}),
        ("fast", good | {"options": "type=tmpfs"}),
    ):
        with pytest.raises(ValueError, match=r"fa_?st"):
            read_volume_roots({name: keys})
    writes = a_replica(volumes=(driver_volume(read_only=False),))
    assert "for reading only" in volumes_refusal(writes, (root,))
    deep = a_replica(volumes=(driver_volume("a/b"),))
    assert "write one name" in volumes_refusal(deep, (root,))
