"""MPS shares from a request to the GPU and back: counted on the GPU, alone with their project."""

import re

import pytest
from django.db import IntegrityError, transaction

from agents.contract.documents import GpuMode, SliceKind
from portal.allocations.models import Allocation
from portal.allocations.slices import SliceOrder, slices_create
from portal.errors import Refused
from portal.inventory.models import Gpu, Node, Slice, SlotClaim
from portal.jobs.models import Job
from portal.planning import snapshot_cache
from portal.quotas.models import Quota
from portal.web.wording.labels import NBSP
from scheduler.core.model.decisions import DevicePlacement
from scheduler.core.model.states import JobStatus
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)


def a_share(threads=25, memory="20GiB"):
    return {"mps": {"threads": threads, "memory": memory}}


def status_of(job: Job) -> str:
    job.refresh_from_db()
    return job.status


def shared() -> tuple[int, int, str]:
    gpu = Gpu.objects.select_related("sharing_project").get()
    return (
        gpu.shared_threads,
        gpu.shared_memory_mib,
        gpu.sharing_project.slug if gpu.sharing_project else "",
    )


def test_two_shares_of_a_project_run_at_once_on_one_gpu_and_give_it_back():
    alice = a_user()
    project = a_project("vision", alice)
    node = a_node()
    first = a_job(alice, project, device=a_share(25))
    second = a_job(alice, project, device=a_share(50, "40GiB"))
    settle(node)
    assert {status_of(first), status_of(second)} == {JobStatus.RUNNING}
    assert shared() == (75, 61_440, "vision")
    assert Quota.objects.get(project=project, user=None).used_units == 14_000 + 28_000
    assert not SlotClaim.objects.exists()

    node.finish()
    settle(node)
    assert {status_of(first), status_of(second)} == {JobStatus.SUCCEEDED}
    assert shared() == (0, 0, "")
    assert Quota.objects.get(project=project, user=None).used_units == 0


def test_the_node_is_told_the_mode_and_each_replicas_share():
    alice = a_user()
    node = a_node()
    a_job(alice, a_project("vision", alice), device=a_share(25), replicas=2)
    settle(node)
    desired = node.hear()
    assert [gpu.mode for gpu in desired.gpus] == [GpuMode.MPS]
    assert desired.slices == ()
    for replica in desired.replicas:
        (device,) = replica.devices
        assert (device.kind, device.threads, device.memory_mib) == (SliceKind.MPS, 25, 20_480)
        assert device.profile == ""


def test_another_project_waits_until_the_gpu_is_empty():
    alice, bob = a_user(), a_user()
    node = a_node()
    first = a_job(alice, a_project("vision", alice), device=a_share(10))
    settle(node)
    second = a_job(bob, a_project("speech", bob), device=a_share(10))
    settle(node)
    assert (status_of(first), status_of(second)) == (JobStatus.RUNNING, JobStatus.QUEUED)
    node.finish()
    settle(node)
    assert status_of(second) == JobStatus.RUNNING
    assert shared() == (10, 20_480, "speech")


def test_a_gpu_that_was_shared_is_carved_and_given_whole_afterwards():
    alice = a_user()
    project = a_project("vision", alice)
    node = a_node()
    for device in (a_share(), {"mig": "1g.18gb"}, {"gpus": 1}, a_share()):
        job = a_job(alice, project, device=device)
        settle(node)
        assert status_of(job) == JobStatus.RUNNING, device
        node.finish()
        settle(node)
    assert Slice.objects.count() == 4


def test_where_no_node_gives_shares_the_request_is_refused_and_says_so():
    alice = a_user()
    project = a_project("vision", alice)
    node = a_node()
    node.row.refresh_from_db()
    node.row.facts["share_clients"] = 0
    node.row.save()
    with pytest.raises(Refused, match="No node here offers MPS shares"):
        a_job(alice, project, device=a_share())


class TestTheDatabaseItself:
    """Where fits() is wrong, or two committers raced past it."""

    @pytest.fixture
    def job(self):
        """It waits: its node takes no work."""
        alice = a_user()
        Node.objects.filter(pk=a_node().row.pk).update(schedulable=False)
        return a_job(alice, a_project("vision", alice), device=a_share())

    def place(self, kind=SliceKind.MPS, threads=60, memory_mib=50_000):
        gpu = Gpu.objects.get()
        place = DevicePlacement(
            *(str(gpu.pk), kind, "", 0, 8), units=1, memory_mib=memory_mib, threads=threads
        )
        return gpu, place

    def create(self, job, **fields):
        with transaction.atomic():
            gpu, device = self.place(**fields)
            return slices_create([SliceOrder(gpu, device, job.project, clients=1)])[0]

    def test_refuses_more_threads_than_there_are(self, job):
        self.create(job)
        with pytest.raises(IntegrityError):
            self.create(job, threads=41)
        assert shared()[0] == 60

    def test_refuses_more_memory_than_there_is(self, job):
        self.create(job, threads=1)
        with pytest.raises(IntegrityError):
            self.create(job, threads=1, memory_mib=100_000)

    def test_refuses_a_second_project(self, job):
        self.create(job, threads=1)
        bob = a_user()
        other = a_job(bob, a_project("speech", bob), device=a_share())
        with pytest.raises(IntegrityError):
            self.create(other, threads=1)

    def test_refuses_a_share_beside_a_whole_gpu_and_a_whole_gpu_beside_a_share(self, job):
        self.create(job, kind=SliceKind.GPU, threads=0)
        with pytest.raises(IntegrityError):
            self.create(job)
        SlotClaim.objects.all().delete()
        self.create(job)
        with pytest.raises(IntegrityError):
            self.create(job, kind=SliceKind.GPU, threads=0)
        assert not Allocation.objects.exists()


class TestThePages:
    @pytest.fixture
    def alice(self, client):
        alice = a_user("alice")
        client.force_login(alice)
        return alice

    def form(self, **fields):
        form = {
            "project": "vision",
            "name": "probe",
            "image": "tessera-example:latest",
            "command": "true",
            "amount": "mps",
            "threads": "30",
            "share_memory": "8GiB",
            "replicas": "1",
            "time_limit": "30m",
            "topology": "best",
            "launcher": "none",
            "priority": "normal",
            "cpu": "1",
            "memory": "1GiB",
        }
        return form | fields

    def test_a_share_is_offered_only_where_a_node_gives_shares(self, client, alice):
        a_project("vision", alice)
        node = a_node()
        assert "room on 1 of 1 GPU<" in client.get("/request/").content.decode()
        node.row.refresh_from_db()
        node.row.facts["share_clients"] = 0
        node.row.save()
        snapshot_cache.clear()  # which may miss what a report says, for a minute
        assert "MPS share" not in client.get("/request/").content.decode()

    def test_the_form_asks_for_a_share_and_clones_it(self, client, alice):
        a_project("vision", alice)
        node = a_node()
        client.post("/request/", self.form())
        job = Job.objects.get()
        assert job.request["device"]["mps"] == {"threads": 30, "memory": "8GiB"}
        settle(node)
        clone = client.get(f"/request/?like={job.label}").content.decode()
        assert 'value="mps" checked' in clone
        assert 'name="threads" inputmode="numeric" value="30"' in clone
        shown = client.get(f"/jobs/{job.label}/").content.decode()
        share = f"MPS 30{NBSP}% + 8{NBSP}GiB"
        # Its head, the drawing in words and under the pointer, its place and its request.
        assert shown.count(share) == 5
        assert share in client.get("/jobs/").content.decode()

    @pytest.mark.parametrize(
        ("field", "value", "said"),
        [
            ("threads", "101", "a percentage from 1 to 100"),
            ("threads", "many", "a percentage from 1 to 100"),
            ("share_memory", "8 parsecs", "with its unit"),
        ],
    )
    def test_what_is_wrong_with_a_share_is_said_beside_its_field(
        self, client, alice, field, value, said
    ):
        a_project("vision", alice)
        a_node()
        answer = client.post("/request/", self.form(**{field: value}))
        page = answer.content.decode()
        assert answer.status_code == 400
        assert f'id="{field}-error"' in page
        assert said in page
        assert not Job.objects.exists()
        panel = client.post("/request/preview", self.form(**{field: value})).content.decode()
        label = {
            "threads": "GPU threads of the share, in percent",
            "share_memory": "GPU memory of the share",
        }
        assert f"<dt>{label[field]}</dt>" in panel
        assert said in panel

    def test_the_map_stacks_shares_by_threads_and_says_who(self, client, alice):
        project = a_project("vision", alice)
        node = a_node()
        for threads in (25, 50):
            a_job(alice, project, device=a_share(threads))
        settle(node)
        page = client.get("/cluster/").content.decode()
        assert f"MPS 25{NBSP}% + 20{NBSP}GiB, alice · vision, sum" in page
        assert "50 % of the threads" in page
        assert "free for shares of the same project" in page
        assert 'href="/request/?amount=mps"' in page
        bob = a_user("bob")
        client.force_login(bob)
        page = client.get("/cluster/").content.decode()
        assert f"MPS 25{NBSP}% + 20{NBSP}GiB" in page
        assert "alice" not in page
        assert 'href="/request/?amount=mps"' not in page

    def test_the_smallest_share_is_drawn_without_words_and_never_with_a_negative_width(
        self, client, alice
    ):
        project = a_project("vision", alice)
        node = a_node()
        a_job(alice, project, device=a_share(1, "1GiB"))
        settle(node)
        for path in ("/", "/cluster/"):
            page = client.get(path).content.decode()
            drawn = re.findall(r'<rect class="mine" x="[^"]*" y="0.5" width="([^"]*)"', page)
            assert float(drawn[-1]) > 0
        assert 'class="b on-mine"></text>' in page
        assert f"MPS 1{NBSP}% + 1{NBSP}GiB" in page
