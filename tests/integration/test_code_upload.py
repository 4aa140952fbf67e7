"""Code that is sent with the request form: files, archives and folders; what is refused, and that
the rest of the form stays."""

import io
import json
import re
import tarfile
import zipfile
from hashlib import sha256

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from portal.files.models import StoredFile, Tree
from portal.files.uploads import parts, services, tar_archive
from portal.jobs.models import Job
from tests.support.request_form import a_form
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db
TRAIN = b"print('trained')\n"


@pytest.fixture
def team(client):
    olga = a_user("olga")
    client.force_login(olga)
    a_node("n1")
    return a_project("vision", olga)


def a_zip(**files: bytes) -> bytes:
    """`a__b_py=b""` is a/b.py."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name.replace("__", "/").replace("_py", ".py"), data)
    return packed.getvalue()


def a_tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, 0o755
    return info


def send(client, *files: tuple[str, bytes], path="/request/", **fields):
    sent = [SimpleUploadedFile(name, data) for name, data in files]
    return client.post(path, {**a_form(**fields), "code_files": sent})


def paths(tree: Tree) -> list[str]:
    return list(tree.entries.order_by("position").values_list("path", flat=True))


def refusal(answer) -> str:
    text = answer.content.decode()
    assert answer.status_code == 400, text
    assert not Job.objects.exists()
    assert not Tree.objects.exists()
    # What was typed is still there.
    assert "python probe.py --lr &#x27;1e-4 &#x27;" in text
    found = re.search(r'id="code-error".*?<span>(.*?)</span>', text, re.DOTALL)
    assert found, "no error beside the code"
    return found[1]


def test_files_become_the_code_of_the_job(client, team):
    answer = send(client, ("train.py", TRAIN), ("tools.py", b""))
    assert answer.status_code == 302
    tree = Tree.objects.get()
    assert Job.objects.get().request["code"] == str(tree.pk)
    assert paths(tree) == ["tools.py", "train.py"]
    assert (tree.creator, tree.origin, tree.project_id) == ("olga", "upload", team.pk)
    again = send(client, ("train.py", TRAIN), ("tools.py", b""), key="twice")
    assert again.status_code == 302
    assert (Tree.objects.count(), StoredFile.objects.count()) == (1, 2)


def test_an_archive_is_what_is_in_it_without_the_folder_around_it(client, team):
    packed = a_zip(app__train_py=TRAIN, app__net__a_py=b"1", app__x_pyc=b"", **{".git/config": b""})
    send(client, ("app.zip", packed))
    assert paths(Tree.objects.get()) == ["net/a.py", "train.py"]
    tar = a_tar(
        (member("./app", tarfile.DIRTYPE), b""),
        (member("./app/train.py"), TRAIN),
        (member("./app/link", tarfile.SYMTYPE, "/etc/passwd"), b""),
        (member("./app/disk", tarfile.BLKTYPE), b""),
        (member("./app/net/a.py"), b"1"),
    )
    answer = send(client, ("app.tar.gz", tar), preview="1")
    assert (
        "2 links and special files were left out: &#x27;app/link&#x27;" in answer.content.decode()
    )
    tree = Tree.objects.order_by("-created_at").first()
    assert paths(tree) == ["net/a.py", "train.py"]
    assert list(tree.entries.values_list("executable", flat=True)) == [True, True]


def test_the_code_stays_attached_when_something_else_is_wrong(client, team):
    answer = send(client, ("train.py", TRAIN), replicas="two")
    tree = Tree.objects.get()
    text = answer.content.decode()
    assert answer.status_code == 400
    assert f'<option value="{tree.pk}" selected>' in text
    assert "1 file attached" in text
    assert client.post("/request/", a_form(code=str(tree.pk))).status_code == 302


def test_the_code_of_a_job_can_be_taken_again(client, team):
    send(client, ("train.py", TRAIN))
    job, tree = Job.objects.get(), Tree.objects.get()
    text = client.get("/request/", {"start": "slice"}).content.decode()
    assert f'<option value="{tree.pk}">As {job.label}, probe: 1 file' in text
    other = a_project("speech", job.owner)
    text = client.get("/request/", {"start": "slice", "project": other.slug}).content.decode()
    assert str(tree.pk) not in text
    a_job(job.owner, other)
    refused = client.post("/request/", a_form(code=str(tree.pk), project=other.slug, key="3"))
    assert "speech has no code with this id" in refused.content.decode()


BOMB = b"\0" * (17 << 20)
HOSTILE_ZIPS = {
    "../up.py": "must be relative",
    "/etc/cron.py": "must be relative",
    "a/../../up.py": "must be relative",
    "x" * 10_000: "at most 1024 bytes",
    "y" * 300: "at most 255 bytes",
}


@pytest.mark.parametrize("name", HOSTILE_ZIPS)
def test_a_path_that_leads_elsewhere_is_refused(client, team, name):
    packed = a_zip(**{name: b"x", "train.py": TRAIN})
    assert HOSTILE_ZIPS[name] in refusal(send(client, ("a.zip", packed)))
    tar = a_tar((member("train.py"), TRAIN), (member(name), b"x"))
    assert HOSTILE_ZIPS[name] in refusal(send(client, ("a.tar.gz", tar)))
    assert not StoredFile.objects.exists()


def test_names_that_are_not_utf8_are_refused(client, team):
    packed = a_zip(xx_py=TRAIN).replace(b"xx.py", b"\xff\xfe.py")
    assert "not UTF-8" in refusal(send(client, ("a.zip", packed)))
    tar = a_tar((member("\udcff.py"), TRAIN))
    assert "must be UTF-8" in refusal(send(client, ("a.tgz", tar)))


def test_an_archive_that_cannot_be_read_is_refused(client, team):
    whole = a_zip(train_py=TRAIN * 100)
    cut = whole[: len(whole) // 2]
    changed = bytes(byte ^ (40 < at < 45) * 255 for at, byte in enumerate(whole))
    for name, data in {
        "a.zip": cut,
        "b.zip": changed,
        "c.tar.gz": cut,
        "d.tgz": b"\x1f\x8bxx",
    }.items():
        assert "is damaged" in refusal(send(client, (name, data))), name
    tar = a_tar((member("train.py"), TRAIN * 1_000))
    assert "is damaged" in refusal(send(client, ("e.tar.gz", tar[:-30])))
    assert "no file" in refusal(send(client, ("f.zip", a_zip())))
    assert "alone" in refusal(send(client, ("g.zip", whole), ("h.py", b"")))


def test_bombs_are_refused_by_count_bytes_and_ratio(client, team, monkeypatch):
    assert "200 times" in refusal(send(client, ("a.zip", a_zip(bomb=BOMB))))
    assert "200 times" in refusal(send(client, ("a.tar.gz", a_tar((member("bomb"), BOMB)))))
    long_note = member("a.py")
    long_note.pax_headers = {"comment": "x" * (2 << 20)}
    assert "too long" in refusal(send(client, ("b.tgz", a_tar((long_note, b"")))))
    monkeypatch.setattr(tar_archive, "MAX_UNPACKED_BYTES", 1 << 20)
    left_out = a_tar((member(".git/big"), BOMB), (member("a.py"), b""))
    assert "unpacks to more than" in refusal(send(client, ("c.tgz", left_out)))
    monkeypatch.setattr(services, "MAX_UPLOAD_BYTES", 1_000)
    assert "At most 10,000 files" in refusal(send(client, ("d.py", b"x" * 1_001)))
    monkeypatch.setattr(parts, "MAX_ENTRIES", 2)
    many = a_zip(a_py=b"", b_py=b"", c_py=b"")
    assert "more than 2 entries" in refusal(send(client, ("e.zip", many)))
    tar = a_tar(*((member(f"{n}.py"), b"") for n in range(3)))
    assert "more than 2 entries" in refusal(send(client, ("f.tgz", tar)))


def test_of_a_folder_only_what_the_project_lacks_is_sent(client, team):
    """As the page's script does it: first the list, and then the bytes that the answer names."""
    listed = [[f"app/{n}.py", 1, sha256(str(n).encode()).hexdigest()] for n in range(3)]
    send(client, ("1.py", b"1"), preview="1")
    Tree.objects.all().delete()

    def call(**sent: bytes):
        files = [SimpleUploadedFile(name.removeprefix("n"), data) for name, data in sent.items()]
        manifest = SimpleUploadedFile("files.json", json.dumps(listed).encode())
        fields = a_form() | {"code_manifest": manifest, "code_folder": files}
        return client.post("/request/preview?of=code", fields).content.decode()

    assert "[&quot;app/0.py&quot;, &quot;app/2.py&quot;]" in call()
    assert not Tree.objects.exists()
    text = call(n0=b"0", n2=b"2")
    assert "data-missing" not in text
    assert "3 files attached" in text
    assert paths(Tree.objects.get()) == ["0.py", "1.py", "2.py"]


def test_no_other_page_takes_files_and_nobody_unknown_sends_any(client, team, monkeypatch):
    taken = []
    monkeypatch.setattr("portal.web.request.code_files.TemporaryFile", lambda: taken.append(1))
    send(client, ("train.py", TRAIN), path="/language/")
    client.logout()
    assert send(client, ("train.py", TRAIN)).status_code == 302
    assert not taken
    assert not Tree.objects.exists()
