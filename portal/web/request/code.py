"""The code of the request form: what is attached, what else there is, and what may be sent.

The field `code` is a list: none, what was just sent, and the code of the user's latest jobs. So it
works without a script: choosing another row, or none, is all that it takes. A git repository has a
field of its own below it.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents.contract.file_transfer import MAX_TREE_ENTRIES
from portal.accounts.models import Project
from portal.cli.code_folder import ALWAYS_IGNORED
from portal.errors import Refused
from portal.files.models import Tree
from portal.files.selectors import code_trees, is_tree_id
from portal.files.uploads.parts import MAX_UPLOAD_BYTES, MIB, BytesMissing
from portal.files.uploads.services import code_upload, too_large
from portal.jobs.selectors import RecentJob
from portal.web.request.code_files import sent_upload
from portal.web.request.form import FilledForm, parse_form
from portal.web.wording.messages import message_text, refusal_text
from scheduler.core.request import RequestLimits

# Codes of jobs in the list.
MAX_CHOICES = 8


@dataclass(frozen=True, slots=True)
class CodeChoice:
    """A row of the list."""

    value: str
    label: str


@dataclass(frozen=True, slots=True)
class SentCode:
    """What came of the files that were sent with the form, if any."""

    left_out: str = ""
    """Which of them were left out, in words."""
    missing: tuple[str, ...] = ()
    """Files of a folder whose bytes are still to be sent."""
    is_refused: bool = False


NOTHING_SENT = SentCode()


@dataclass(frozen=True, slots=True)
class CodeInput:
    choices: list[CodeChoice]
    attached: Tree | None
    """The code that the form has."""
    sent: SentCode = NOTHING_SENT
    repository: str = ""
    """The git source that the form has instead."""
    max_files: int = MAX_TREE_ENTRIES
    max_files_text: str = f"{MAX_TREE_ENTRIES:,}"
    max_bytes: int = MAX_UPLOAD_BYTES
    max_mib: int = MAX_UPLOAD_BYTES // MIB
    ignored: str = " ".join(ALWAYS_IGNORED)

    @property
    def too_large(self) -> str:
        return message_text(too_large())

    @property
    def missing_json(self) -> str:
        """For the page's script."""
        return json.dumps(self.sent.missing)


def code_input(
    form: FilledForm, project: Project | None, recent: Iterable[RecentJob], sent: SentCode
) -> CodeInput:
    """Of the form's project. One query, or none where no code was ever used."""
    code = form.values["code"].strip()
    jobs: dict[str, RecentJob] = {}
    for job in recent:
        if job.code and project and job.project_id == project.pk:
            jobs.setdefault(job.code, job)
    named = list(jobs)[:MAX_CHOICES]
    trees = code_trees(project.pk, {*named, code}) if project else {}
    choices = [
        CodeChoice(each, _job_words(jobs[each], trees[each])) for each in named if each in trees
    ]
    # Also what names none: it stays where it was typed.
    repository = "" if is_tree_id(code) else code
    if code and not repository and code not in named:
        words = _tree_words(trees[code]) if code in trees else code
        choices.insert(0, CodeChoice(code, words))
    return CodeInput(choices, trees.get(code), sent, repository)


def with_sent_code(
    request: HttpRequest,
    form: FilledForm,
    projects: Iterable[Project],
    limits: RequestLimits,
) -> tuple[FilledForm, SentCode]:
    """The form with the files that were sent with it as its code. What is wrong with them is an
    error of the form, and everything else is kept."""
    try:
        upload = sent_upload(request)
        project = next((p for p in projects if p.slug == form.values["project"]), None)
        if upload is None or project is None:
            return form, NOTHING_SENT
        creator = request.user.get_username()
        found = code_upload(project_id=project.pk, upload=upload, creator=creator)
    except BytesMissing as lacking:
        return form, SentCode(missing=tuple(lacking.paths))
    except Refused as refused:
        form.errors["code"] = refusal_text(refused)
        form.request = None
        return form, SentCode(is_refused=True)
    filled = parse_form({**form.values, "code": str(found.tree.pk)}, limits)
    return filled, SentCode(left_out=_left_out_words(found.left_out.count, found.left_out.examples))


def _job_words(job: RecentJob, tree: Tree) -> str:
    words = {"job": job.label, "name": job.name, "size": _size_words(tree)}
    return _("As %(job)s, %(name)s: %(size)s") % words


def _tree_words(tree: Tree) -> str:
    words = {"user": tree.creator, "size": _size_words(tree)}
    return _("Sent by %(user)s: %(size)s") % words


def _size_words(tree: Tree) -> str:
    files = ngettext("%(n)s file", "%(n)s files", tree.file_count) % {"n": f"{tree.file_count:,}"}
    words = {"files": files, "bytes": filesizeformat(tree.total_bytes), "id": str(tree.pk)[:8]}
    return _("%(files)s, %(bytes)s (%(id)s)") % words


def _left_out_words(count: int, examples: list[str]) -> str:
    if not count:
        return ""
    text = ngettext(
        "%(n)s link or special file was left out: %(paths)s",
        "%(n)s links and special files were left out: %(paths)s",
        count,
    )
    return text % {"n": count, "paths": ", ".join(examples) + (", …" if count > 3 else "")}
