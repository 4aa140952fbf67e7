"""What the portal says on the host of an app is in English and in Chinese."""

import pytest

from agents.contract.tunnel import StreamRefusal
from portal.apps import answers
from portal.tunnel.streams import stream_refused


@pytest.mark.parametrize("why", StreamRefusal)
def test_why_an_app_cannot_be_reached_is_said_in_both_languages(why):
    sentence = stream_refused(why).sentence
    answer = answers.no_way(12, sentence)
    assert sentence in answer.english
    assert sentence not in answer.chinese
    assert answers.in_chinese(sentence) in answer.chinese
