"""Evidence beside a sentence: the figures that the sentence does not have."""

import pytest

from portal.web.wording.evidence import unsaid_evidence


def labels(sentence: str, **evidence: object) -> list[str]:
    return [label for label, _value in unsaid_evidence({"evidence": evidence}, sentence)]


def test_what_the_sentence_says_is_not_repeated():
    sentence = "2 × 2g.35gb needed, 0 free"
    evidence = {"needed": 2, "free": 0, "by_node": {"a": 0, "b": 0}}
    assert labels(sentence, **evidence) == ["Free by node"]


@pytest.mark.parametrize("sentence", ["12 × GPU needed", "0.2 GPUs needed", "Jobs ahead take it"])
def test_a_figure_that_is_only_a_part_of_another_is_kept(sentence):
    assert labels(sentence, needed=2) == ["Needed"]


def test_figures_that_no_sentence_names_stay_although_they_are_equal():
    assert labels("2 × GPU needed", needed=2, largest=2) == ["Largest available"]


def test_units_are_compared_as_gpus():
    sentence = "vision holds 5.50 of the 6 GPUs that it may hold"
    evidence = {"limit_units": 6 * 56_000, "used_units": 308_000, "needed_units": 56_000}
    assert labels(sentence, **evidence) == ["Needed"]
