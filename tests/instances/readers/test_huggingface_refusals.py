"""Configurations of Hugging Face transformers that are refused in a line, and doubts that are warnings."""

import json
import warnings

import pytest
from transformers_configurations import GEMMA, LLAMA, written

import mtpp
from instances import InputError, InputWarning
from instances.json_files import parse_json
from instances.readers import load_graph
from instances.readers.huggingface.configuration import decoder_of, model_types

GEMMA4 = {"model_type": "gemma4_text", "hidden_size_per_layer_input": 0}
BAD = {
    "heads do not divide": (LLAMA | {"num_attention_heads": 3}, "num_attention_heads: 3 heads do not divide"),
    "heads of keys": (LLAMA | {"num_key_value_heads": 3}, "num_key_value_heads: 3 heads of keys do not divide 2"),
    "layers": (LLAMA | {"num_hidden_layers": 10**9}, "num_hidden_layers: the number is 1000000000; it must be from 1"),
    "digits": (LLAMA | {"hidden_size": 10**40}, "hidden_size: the whole number is too large"),
    "parameters": (LLAMA | {"hidden_size": 2**28, "intermediate_size": 2**28}, "parameters; check its sizes"),
    "text": (LLAMA | {"hidden_size": "8"}, "hidden_size: expected a whole number"),
    "null": (LLAMA | {"hidden_size": None}, "hidden_size: it is missing; add this field"),
    "infinite": (json.dumps(LLAMA).replace('"hidden_size": 8', '"hidden_size": Infinity'), "expected a whole number"),
    "nan": (json.dumps(LLAMA).replace('"hidden_size": 8', '"hidden_size": NaN'), "NaN is not a JSON number"),
    "twice": (json.dumps(LLAMA).replace("}", ', "vocab_size": 3}'), "field 'vocab_size' is given twice"),
    "unknown": ({"model_type": "lama"}, "the model type 'lama' is not known; did you mean llama"),
    **{
        name: ({"model_type": name}, f"the model type '{name}' is not known[;.]")
        for name in ("samba", "superlm", "timer")
    },
    "without type": ({"architectures": ["A"]}, "missing field 'model_type'"),
    "own code": ({"model_type": "mine", "auto_map": {"AutoModel": "a.B"}}, "is code of its own, which is never run"),
    "inner text": ({"model_type": "llava", "text_config": [1]}, "text_config: expected an object"),
    "experts": ({"model_type": "mixtral", "num_experts_per_tok": 9}, "9 experts are chosen of 8"),
    "kinds": (GEMMA | {"layer_types": ["full_attention"]}, "there are 1 kinds of layers for 2 layers"),
    "kind": (
        GEMMA | {"layer_types": ["full_attention", "x"]},
        r"layer_types\[1\]: this is 'x'; give one of full_attention, .*, chunked_attention\.$",
    ),
    "no window": (GEMMA | {"sliding_window": None}, "sliding_window: it is missing"),
    "mamba": ({"model_type": "mamba2", "num_heads": 3}, "3 heads of 64 do not make the width 8192"),
    "own inputs": ({"model_type": "gemma4_text"}, "hidden_size_per_layer_input: nothing is known of layers with it"),
    "sizes of layers": (
        GEMMA4 | {"per_layer_config": {"0": {}}},
        "per_layer_config: it must name the layers that attend",
    ),
    "unlike layers": (
        GEMMA4 | {"per_layer_config": {"5": {}, "11": {"head_dim": 3}}},
        "per_layer_config: its layers differ",
    ),
    "no kinds": ({"model_type": "lfm2_moe"}, "layer_types: it is missing; give the kind of each layer"),
    "letters": (
        {"model_type": "nemotron_h", "hybrid_override_pattern": "MX"},
        "hybrid_override_pattern: a letter of it",
    ),
    "no layers": ({"model_type": "nemotron_h", "layers_block_type": []}, "it has 0 layers; there must be from 1"),
    "indexers": (
        {"model_type": "glm_moe_dsa", "indexer_types": ["full"]},
        "there are 1 kinds of indexers for 78 layers",
    ),
    "attention types": ({"model_type": "gpt_neo", "attention_types": [[["local"], 10**12]]}, "how often they follow"),
}


@pytest.mark.parametrize("name", list(BAD))
def test_bad_configurations_are_refused_in_a_line(tmp_path, name):
    config, message = BAD[name]
    path = written(tmp_path, config)
    with pytest.raises(InputError, match=message) as caught:
        load_graph(path)
    assert str(path) in str(caught.value)


def test_doubts_are_warnings(tmp_path):
    config = LLAMA | {"auto_map": {"A": "b.C"}, "num_experts": 4, "quantization_config": {"bits": 4}}
    outer = {"model_type": "llava", "text_config": config, "vision_config": {"hidden_size": 3}}
    with pytest.warns(InputWarning) as told:
        load_graph(written(tmp_path, outer))
    text = " ".join(str(one.message) for one in told)
    for part in (
        "only the decoder of its text_config counts",
        "a vision tower",
        "never run",
        "quantised",
        "num_experts",
    ):
        assert part in text


@pytest.mark.parametrize("name", ["dtype", "torch_dtype"])
def test_numbers_have_the_width_of_the_type_that_is_stated(tmp_path, name):
    widths = {"bfloat16": 2, "float16": 2, "float32": 4, "float64": 8, "int5": 4}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind, width in widths.items():
            path = written(tmp_path, LLAMA | {name: kind})
            assert load_graph(path).attributes["dims"]["element_bytes"] == width
            assert load_graph(path, dims={"element_bytes": 3}).attributes["dims"]["element_bytes"] == 3
        assert load_graph(written(tmp_path, LLAMA | {name: ["float16"]})).attributes["dims"]["element_bytes"] == 4


def test_an_infinite_limit_of_time_is_no_fault(tmp_path):
    config = '{"model_type": "mamba2", "num_hidden_layers": 1, "time_step_limit": [0.0, Infinity]}'
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_graph(written(tmp_path, config)).attributes["parameter_count"] > 0


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 5}, "LlamaForCausalLMEagle3; a llama with"),
        ({"architectures": ["LlamaForMultipleChoice"]}, "it is a LlamaForMultipleChoice"),
        ({"architectures": ["LlamaForRewardModel"]}, "it is a LlamaForRewardModel"),
        ({"medusa_num_heads": 4}, "heads that draft"),
        ({"mm_vision_tower": "openai/clip"}, "a vision tower"),
    ],
)
def test_parts_that_are_not_counted_are_told(tmp_path, more, words):
    with pytest.warns(InputWarning) as told:
        load_graph(written(tmp_path, LLAMA | more))
    assert any(words in str(one.message) for one in told)


def test_bug_weights_that_mlx_quantised_were_counted_as_whole_without_a_word(tmp_path):
    with pytest.warns(InputWarning) as told:
        load_graph(written(tmp_path, LLAMA | {"quantization": {"group_size": 64, "bits": 4}}))
    assert [str(one.message).partition(": ")[2][:26] for one in told] == ["its weights are quantised:"]


def test_bug_a_type_of_null_hid_that_of_the_decoder(tmp_path):
    config = {"model_type": "llava", "dtype": None, "text_config": LLAMA | {"torch_dtype": "bfloat16"}}
    with pytest.warns(InputWarning, match="only the decoder"):
        assert load_graph(written(tmp_path, config)).attributes["dims"]["element_bytes"] == 2


def test_models_of_transformers_are_read_or_refused_by_what_they_have():
    auto = pytest.importorskip("transformers.models.auto.configuration_auto", reason="transformers is not installed")
    read = {*model_types(), *model_types("encoders"), *model_types("wrappers"), "kimi_k2", "code_llama"}
    for kind in sorted(auto.CONFIG_MAPPING_NAMES.keys() - read):
        if f"{kind}_text" not in read:
            with pytest.raises(InputError, match=f"'{kind}' is not known, which has .*; in Python, give the module"):
                decoder_of(parse_json(json.dumps({"model_type": kind}), "config.json"))


def test_bug_the_most_layers_of_a_refusal_are_read(tmp_path):
    """Their operators were too many."""
    with pytest.raises(InputError, match="num_hidden_layers") as caught:
        load_graph(written(tmp_path, LLAMA | {"num_hidden_layers": 10**9}))
    most = int(str(caught.value).rpartition(" to ")[2].rstrip("."))
    assert load_graph(written(tmp_path, LLAMA | {"num_hidden_layers": most}), level="layer").n > most
    assert load_graph(written(tmp_path, LLAMA | {"num_hidden_layers": most})).n > 10 * most


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (json.dumps(LLAMA).encode("utf-16"), "byte 0 is not UTF-8; save it as UTF-8"),
        (json.dumps(LLAMA).encode()[:-9], "not valid JSON"),
        (b"null", "expected an object"),
        (None, "cannot be read"),
    ],
)
def test_bug_a_folder_says_what_is_wrong_with_its_configuration(tmp_path, content, message):
    """Each said of the folder that it is none of what can be read; None is a link to itself."""
    file = tmp_path / "config.json"
    if content is None:
        file.symlink_to(file)
    else:
        file.write_bytes(content)
    words = {"bandwidth": "300GB/s", "global_batch": 4}
    for ask in (
        lambda: load_graph(tmp_path),
        lambda: mtpp.serve(tmp_path, k=2, memory="1GB"),
        lambda: mtpp.serve(tmp_path, servers="1x2xH100"),
        lambda: mtpp.train(tmp_path, "1x2", **words),
        lambda: mtpp.flow(tmp_path, devices="2xT4"),
    ):
        with pytest.raises(InputError, match=f"config.json: {message}"):
            ask()


def test_bug_a_path_is_not_near_itself(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(InputError, match="loop: this link leads to no file"):
        load_graph(tmp_path / "loop")
    (tmp_path / "models").mkdir()
    with pytest.raises(InputError) as caught:
        mtpp.train(tmp_path / "models", "1x2", bandwidth="300GB/s", global_batch=4)
    assert "did you mean" not in str(caught.value)
