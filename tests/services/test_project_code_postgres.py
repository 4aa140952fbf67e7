"""The list of a project's code on PostgreSQL, whose windows and groups over JSON are its own."""

import pytest

from portal.files.code_list import project_commits
from tests.integration.test_project_code import FIRST, MAIN, a_git_job, a_tree, listed
from tests.support.rows import a_job, a_project, a_user

pytestmark = pytest.mark.services


def test_trees_and_commits_are_listed_with_their_jobs(postgres_django):
    alice = a_user("alice")
    vision = a_project("vision", alice)
    tree = a_tree(vision, "1")
    jobs = [a_job(alice, vision, code=str(tree.pk)).label for _ in range(4)]
    ran = [a_git_job(alice, vision, [FIRST, FIRST]).label for _ in range(4)]
    (code,) = listed(vision)
    assert (code.use.jobs, code.use.count) == (jobs[:0:-1], 4)
    (commit,) = project_commits(vision)
    assert (commit.repository, commit.commit) == (MAIN, FIRST)
    assert (commit.use.jobs, commit.use.count) == (ran[:0:-1], 4)
