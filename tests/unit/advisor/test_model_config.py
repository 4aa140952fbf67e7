"""Shapes from config.json files of published models."""

import json

import pytest

from scheduler.advisor.__main__ import main
from scheduler.advisor.errors import AdvisorError
from scheduler.advisor.model_config import shape_from_config

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 16,
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "intermediate_size": 8192,
    "vocab_size": 128_256,
    "max_position_embeddings": 131_072,
    "tie_word_embeddings": True,
}
QWEN2 = LLAMA | {
    "architectures": ["Qwen2ForCausalLM"],
    "num_hidden_layers": 24,
    "hidden_size": 896,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "head_dim": None,
    "intermediate_size": 4864,
    "vocab_size": 151_936,
}
QWEN3 = LLAMA | {
    "architectures": ["Qwen3ForCausalLM"],
    "num_hidden_layers": 36,
    "hidden_size": 4096,
    "head_dim": 128,
    "intermediate_size": 12_288,
    "vocab_size": 151_936,
    "tie_word_embeddings": False,
}
NEMO = LLAMA | {
    "architectures": ["MistralForCausalLM"],
    "num_hidden_layers": 40,
    "hidden_size": 5120,
    "head_dim": 128,
    "intermediate_size": 14_336,
    "vocab_size": 131_072,
    "tie_word_embeddings": False,
}
GPT2 = {
    "architectures": ["GPT2LMHeadModel"],
    "n_layer": 12,
    "n_embd": 768,
    "n_head": 12,
    "n_positions": 1024,
    "n_inner": None,
    "vocab_size": 50_257,
}


@pytest.mark.parametrize(
    ("config", "millions"),
    [(LLAMA, 1235.8), (QWEN2, 494.0), (QWEN3, 8190.7), (NEMO, 12_247.8), (GPT2, 124.4)],
    ids=["Llama-3.2-1B", "Qwen2.5-0.5B", "Qwen3-8B", "Mistral-Nemo", "gpt2"],
)
def test_the_parameters_are_those_of_the_published_weights(config, millions):
    assert shape_from_config(config).parameters / 1e6 == pytest.approx(millions, rel=0.0005)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "'MambaForCausalLM' is not known"),
        ({"architectures": []}, "'None' is not known"),
        ({"architectures": [["x" * 1_000]]}, "is not known"),
        ({"hidden_size": "2048"}, "hidden_size must be a whole number"),
        ({"hidden_size": 0}, "hidden_size must be a whole number"),
        ({"vocab_size": 10**30}, "vocab_size must be a whole number"),
        ({"num_hidden_layers": None}, "num_hidden_layers must be a whole number"),
        ({"num_key_value_heads": 5}, "do not divide by 5"),
    ],
)
def test_what_is_missing_or_wrong_is_named(change, words):
    with pytest.raises(AdvisorError, match=words):
        shape_from_config(LLAMA | change)


def test_the_search_reads_a_file(tmp_path, capsys):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA))
    assert main(["search", "--config", str(file), "--gpus", "8", "--sequence", "4096"]) == 0
    assert "s a step" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["[]", "{", "[" * 100_000, " " * 10_000_001])
def test_a_file_that_is_no_configuration_is_refused(tmp_path, capsys, content):
    file = tmp_path / "config.json"
    file.write_text(content)
    with pytest.raises(SystemExit):
        main(["search", "--config", str(file), "--gpus", "8"])
    assert str(file) in capsys.readouterr().err
