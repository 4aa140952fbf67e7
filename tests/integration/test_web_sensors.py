"""The cluster page says what sensors say: with its age, in words where nothing can be measured, and
never of a GPU on which another project works."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.contract.codec import encode
from agents.contract.telemetry import GpuSample, MissingReason, MissingValue, SliceSample
from portal.allocations.models import Allocation
from portal.inventory.models import Gpu, LatestSample
from portal.web.cluster.sensors import UNMEASURED_REASONS
from portal.web.wording.labels import NBSP
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def olga():
    return a_user("olga")


@pytest.fixture
def page(client):
    def get(user, language: str = "en") -> str:
        if client.session.get("_auth_user_id") != str(user.pk):
            client.force_login(user)
        answer = client.get("/cluster/", headers={"accept-language": language})
        return answer.content.decode().replace(NBSP, " ")

    return get


def sampled(index: int = 0, *, seconds_ago: int = 3, node: str = "n1", **fields) -> None:
    gpu = Gpu.objects.get(node__name=node, index=index)
    sample = GpuSample(**{"uuid": gpu.uuid} | fields)
    taken_at = timezone.now() - timedelta(seconds=seconds_ago)
    LatestSample.objects.create(gpu=gpu, taken_at=taken_at, sample=encode(sample))


def test_a_gpus_numbers_stand_with_their_units_and_age(page, olga):
    a_node("n1")
    sampled(
        seconds_ago=7200,
        utilization_percent=87,
        memory_used_mib=1_536,
        memory_total_mib=143_360,
        temperature_c=54,
        power_mw=412_400,
        power_limit_mw=700_000,
    )
    text = page(olga)
    for words in ("87 %", "1.5 / 140.0 GiB", "54 °C", "412 / 700 W", "2 h ago"):
        assert f">{words}<" in text


def test_without_a_sample_nothing_is_said(page, olga):
    a_node("n1")
    assert "Sensors" not in page(olga)


@pytest.mark.parametrize("why", list(MissingReason))
def test_what_is_not_measurable_is_said_in_words_and_is_never_a_zero(page, olga, why):
    a_node("n1")
    sampled(missing=(MissingValue("utilization_percent", why),))
    text = page(olga)
    assert f">{UNMEASURED_REASONS[why]}<" in text
    assert ">0 %<" not in text


def test_a_slice_has_its_memory_and_its_activity(page, olga):
    a_node("n1")
    pieces = (
        SliceSample("MIG-a", 7, "1g.18gb", 512, 16_384, active_percent=61),
        SliceSample(
            "MIG-b",
            1,
            "3g.71gb",
            0,
            71_168,
            missing=(MissingValue("active_percent", MissingReason.ARCHITECTURE),),
        ),
    )
    sampled(slices=pieces, missing=(MissingValue("utilization_percent", MissingReason.MIG_MODE),))
    text = page(olga)
    assert "<code>1g.18gb</code>" in text and ">61 %<" in text and ">0.5 / 16.0 GiB<" in text
    assert ">not measurable on this GPU architecture<" in text
    assert ">not measurable in MIG mode<" in text


def test_what_another_projects_work_does_to_a_gpu_is_shown_to_its_people_and_admins_only(
    page, olga
):
    node = a_node("n1", gpus=2)
    stranger, admin = a_user("sam"), a_user("ada", is_superuser=True)
    a_job(olga, a_project("vision", olga), device={"gpus": 1})
    settle(node)
    held = Allocation.objects.live().get().slice.gpu
    sampled(held.index, utilization_percent=87)
    sampled(1 - held.index, utilization_percent=11)
    assert ">87 %<" in page(olga) and ">87 %<" in page(admin)
    text = page(stranger)
    assert ">87 %<" not in text and ">11 %<" in text
    assert "Hidden: a job of another project runs on it" in text


def test_a_profiles_name_becomes_no_markup(page, olga):
    a_node("n1")
    sampled(slices=(SliceSample("MIG-a", 7, "<script>x</script>"),))
    assert "<script>x" not in page(olga)


def test_a_sample_of_another_version_is_not_shown(page, olga):
    a_node("n1")
    sampled(utilization_percent=87)
    LatestSample.objects.update(sample={"uuid": "GPU-1", "unheard_of": 1})
    assert "Sensors" not in page(olga)


def test_it_is_said_in_chinese_too(page, olga):
    a_node("n1")
    sampled(missing=(MissingValue("utilization_percent", MissingReason.MIG_MODE),))
    assert "MIG 模式下无法测量" in page(olga, "zh-hans")


def test_many_samples_are_read_with_as_many_queries_as_one(page, olga):
    def count() -> int:
        with CaptureQueriesContext(connection) as asked:
            page(olga)
        return len(asked)

    a_node("n1", gpus=4)
    sampled(0, power_mw=1)
    page(olga)  # signing in asks more
    few = count()
    for index in (1, 2, 3):
        sampled(index, power_mw=1)
    assert count() == few
