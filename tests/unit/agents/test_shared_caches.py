"""Jobs of some projects read folders that their node's owner names, and run without them, too."""

from dataclasses import replace

import pytest

from agents.admission.policy import PolicyError, read_policy
from agents.admission.shared_caches import SharedCache
from agents.admission.volume_roots import VolumeRoot
from agents.contract.caches import OfferedCache
from agents.contract.documents import RuntimeKind
from agents.runtime.grants import VolumeMount, no_grant
from agents.volumes.caches import SharedCaches
from agents.volumes.grants import with_caches
from tests.unit.agents.documents import a_replica


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "hub"
    folder.mkdir()
    folder.chmod(0o755)
    return folder


def models(folder, *projects, **place):
    root = VolumeRoot("models", str(folder), read_only=True, **place)
    return SharedCaches((SharedCache(root, "HF_HUB_CACHE", projects),))


def granted(caches, runtime=RuntimeKind.DOCKER, **fields):
    return with_caches(no_grant, caches, runtime)(a_replica(**fields), ())


def test_jobs_of_its_projects_get_it_for_reading_with_its_path_in_two_variables(folder):
    grant = granted(models(folder, "vision"), project="vision")
    assert grant.volumes == (VolumeMount(str(folder), "/caches/models", read_only=True),)
    assert grant.env == {"HF_HUB_CACHE": "/caches/models", "TESSERA_CACHE_MODELS": "/caches/models"}
    process = granted(models(folder, "vision"), RuntimeKind.PROCESS, project="vision")
    assert set(process.env.values()) == {str(folder)}
    assert granted(models(folder, "*"), project="speech").volumes == grant.volumes
    assert granted(models(folder, "vision"), project="speech") == no_grant(a_replica(), ())


def test_a_variable_of_the_request_stays(folder):
    fields = {"project": "vision", "env": {"HF_HUB_CACHE": "/workspace/hub"}}
    grant = granted(models(folder, "vision"), **fields)
    assert grant.env == {"TESSERA_CACHE_MODELS": "/caches/models"}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda folder: folder.rmdir(), "there is no folder {}"),
        (lambda folder: folder.chmod(0o750), "jobs cannot read {}: chmod o+rx {}"),
    ],
)
def test_a_job_runs_without_a_cache_that_cannot_be_used_and_the_node_says_why(
    folder, change, sentence
):
    caches = models(folder, "vision")
    assert caches.offered() == (OfferedCache("models", "HF_HUB_CACHE", ("vision",)),)
    change(folder)
    assert granted(caches, project="vision") == no_grant(a_replica(), ())
    says = f"Jobs run without the cache models: {sentence.format(folder, folder)}"
    assert caches.problems() == (says,)
    assert models(folder, "vision").offered() == ()


def test_a_cache_that_should_be_mounted_is_not_offered_while_it_is_not(folder):
    caches = models(folder, "vision", mounted=True)
    assert caches.offered() == () and "nothing is mounted" in caches.problems()[0]


POLICY = {"path": "/mnt/hub", "variable": "HF_HUB_CACHE", "projects": ["vision"]}


def written(tmp_path, text):
    file = tmp_path / "policy.toml"
    file.write_text(text)
    file.chmod(0o644)
    return file


def a_table(**keys):
    words = (f"{key} = {value!r}" for key, value in (POLICY | keys).items() if value is not None)
    return "[caches.models]\n" + "\n".join(words) + "\n"


def test_caches_are_read_from_the_policy(tmp_path):
    policy = read_policy(written(tmp_path, a_table() + "mounted = true"))
    root = VolumeRoot("models", "/mnt/hub", read_only=True, mounted=True)
    assert policy.caches == (SharedCache(root, "HF_HUB_CACHE", ("vision",)),)
    assert replace(policy, caches=()) == replace(read_policy(None))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('caches = "/srv"', "tables, such as"),
        ('[caches]\nmodels = "/srv"', "write path, variable and projects"),
        (a_table(variable=None), "write path, variable and projects"),
        (a_table(read_only="yes"), "write path, variable and projects"),
        (a_table(variable="PATH"), "none that Tessera sets"),
        (a_table(variable="LD_PRELOAD"), "none that Tessera sets"),
        (a_table(variable="TESSERA_CODE_DIR"), "none that Tessera sets"),
        (a_table(variable="A=B"), "a name that programs read"),
        (a_table(projects="vision"), "a list of short names"),
        (a_table(projects=[]), "a list of short names"),
        (a_table(path="hub"), "must be absolute"),
        (a_table() + a_table().replace("models", "more"), "another cache has the variable"),
    ],
)
def test_a_policy_with_a_bad_cache_stops_the_agent(tmp_path, text, words):
    with pytest.raises(PolicyError) as caught:
        read_policy(written(tmp_path, text))
    assert "caches: " in str(caught.value) and words in str(caught.value)
