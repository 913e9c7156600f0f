"""Forms in which weights lie beside a configuration: which count, with their bytes, and which are refused by name."""

import json
import re

import pytest
from transformers_configurations import LLAMA, written
from weight_files import gguf, shapes_of_llama, stored, stored_bytes, tensors_of_gguf

import mtpp
from instances import InputError, InputWarning
from instances.readers import load_graph
from mtpp.cli.main import main

SHAPES = shapes_of_llama()
LAYER, END = 496, 80 + 8 + 80  # parameters of a layer, and of table, norm and head
BF16, F32 = stored_bytes("BF16", 2, SHAPES), stored_bytes("F32", 4, SHAPES)
FIRST = {name: own for name, own in BF16.items() if ".0." in name}
SECOND = {name: own for name, own in BF16.items() if name not in FIRST}
CONSOLIDATED = {
    name.replace("model.", "").replace("embed_tokens", "tok_embeddings").replace("lm_head", "output"): own
    for name, own in BF16.items()
}
ADAPTER = {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": ("F32", [2, 8], 64)}
Q8, Q4 = tensors_of_gguf(8), tensors_of_gguf(2)
HALVES = tuple({name: own for name, own in Q8.items() if ("blk.0." in name) == first} for first in (True, False))
TOWER = {"v.blk.0.attn_q.weight": (0, [5, 5])}
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123\n"


def index(*parts):
    """An index of files with their tensors."""
    return json.dumps({"weight_map": {name: file for file, tensors in parts for name in tensors}})


def layer_bytes(tensors):
    """Bytes of both layers, and of all else, of a GGUF file with blocks of 32 numbers."""
    sizes = {0: (1, 4), 2: (32, 18), 8: (32, 34)}
    found = {}
    for name, (kind, shape) in tensors.items():
        block, width = sizes[kind]
        part = name.split(".")[1] if "blk" in name else "ends"
        elements = shape[0] * (shape[1] if len(shape) > 1 else 1)
        found[part] = found.get(part, 0) + -(-elements // block) * width
    return found


def part_bytes(graph):
    """Bytes of both layers and of all else in a graph of layers."""
    sizes = dict(zip(graph.names, graph.param_bytes.tolist(), strict=True))
    layers = {number: sizes.pop(f"model.layers.{number}") for number in ("0", "1")}
    return layers | {"ends": sum(sizes.values()) + sum(parameter.bytes for parameter in graph.parameters)}


def fill(folder, files):
    """Write a folder with the tiny Llama's configuration and these files; the path of the configuration."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return written(folder, LLAMA)


WIDE = {"0": 4 * LAYER, "1": 4 * LAYER, "ends": 4 * END}
HALF = {"0": 2 * LAYER, "1": 2 * LAYER, "ends": 2 * END}
#: Files, what counts, and the word `weights`.
FORMS = {
    "single": ({"model.safetensors": stored(BF16)}, HALF, None),
    "of another name": ({"llama.safetensors": stored(BF16)}, HALF, None),
    "sharded": (
        {
            "model-00001-of-00002.safetensors": stored(FIRST),
            "model-00002-of-00002.safetensors": stored(SECOND),
            "model.safetensors.index.json": index(
                ("model-00001-of-00002.safetensors", FIRST), ("model-00002-of-00002.safetensors", SECOND)
            ),
        },
        HALF,
        None,
    ),
    "sharded in a folder": (
        {
            "shards/a.safetensors": stored(FIRST),
            "shards/b.safetensors": stored(SECOND),
            "model.safetensors.index.json": index(("shards/a.safetensors", FIRST), ("shards/b.safetensors", SECOND)),
        },
        HALF,
        None,
    ),
    "sharded without index": (
        {"model-00001-of-00002.safetensors": stored(FIRST), "model-00002-of-00002.safetensors": stored(SECOND)},
        HALF,
        None,
    ),
    "sharded beside whole": (
        {
            "model.safetensors": stored(BF16),
            "model-1-of-2.safetensors": stored(FIRST),
            "model-2-of-2.safetensors": stored(SECOND),
        },
        HALF,
        None,
    ),
    "consolidated alone": ({"consolidated.safetensors": stored(CONSOLIDATED)}, HALF, None),
    "consolidated beside single": (
        {"model.safetensors": stored(BF16), "consolidated.safetensors": stored(CONSOLIDATED)},
        HALF,
        None,
    ),
    "consolidated beside sharded": (
        {
            "a.safetensors": stored(FIRST),
            "b.safetensors": stored(SECOND),
            "model.safetensors.index.json": index(("a.safetensors", FIRST), ("b.safetensors", SECOND)),
            "consolidated.safetensors": stored(CONSOLIDATED),
        },
        HALF,
        None,
    ),
    "smaller variant": ({"model.safetensors": stored(F32), "model.fp16.safetensors": stored(BF16)}, WIDE, None),
    "variant by name": (
        {"model.safetensors": stored(F32), "model.fp16.safetensors": stored(BF16)},
        HALF,
        "model.fp16.safetensors",
    ),
    "larger variant by name": (
        {"model.safetensors": stored(BF16), "model.fp32.safetensors": stored(F32)},
        HALF,
        "model.safetensors",
    ),
    "index of a variant": (
        {
            "model.safetensors": stored(F32),
            "model.fp16-00001-of-00002.safetensors": stored(FIRST),
            "model.fp16-00002-of-00002.safetensors": stored(SECOND),
            "model.safetensors.index.fp16.json": index(
                ("model.fp16-00001-of-00002.safetensors", FIRST), ("model.fp16-00002-of-00002.safetensors", SECOND)
            ),
        },
        HALF,
        "model.safetensors.index.fp16.json",
    ),
    "adapter beside": ({"model.safetensors": stored(BF16), "adapter_model.safetensors": stored(ADAPTER)}, HALF, None),
    "adapter of any name": ({"model.safetensors": stored(BF16), "style.safetensors": stored(ADAPTER)}, HALF, None),
    "adapter alone": ({"adapter_model.safetensors": stored(ADAPTER)}, WIDE, None),
    "gguf": ({"llama-q8.gguf": gguf(Q8)}, layer_bytes(Q8), None),
    "gguf in capitals": ({"LLAMA.Q8.GGUF": gguf(Q8)}, layer_bytes(Q8), None),
    "split gguf": (
        {
            "llama-00001-of-00002.gguf": gguf(HALVES[0], split__no=0, split__count=2),
            "llama-00002-of-00002.gguf": gguf(HALVES[1], split__no=1, split__count=2),
        },
        layer_bytes(Q8),
        None,
    ),
    "several gguf by name": ({"q8.gguf": gguf(Q8), "q4.gguf": gguf(Q4)}, layer_bytes(Q4), "q4.gguf"),
    "split gguf by a part": (
        {"q4.gguf": gguf(Q4), "q8-00001-of-00002.gguf": gguf(HALVES[0]), "q8-00002-of-00002.gguf": gguf(HALVES[1])},
        layer_bytes(Q8),
        "q8-00002-of-00002.gguf",
    ),
    "gguf of a folder below": ({"Q4/q4.gguf": gguf(Q4), "Q8/q8.gguf": gguf(Q8)}, layer_bytes(Q8), "Q8"),
    "smaller gguf beside safetensors": (
        {"model.safetensors": stored(BF16), "q8.gguf": gguf(Q8 | {"output.weight": (2, [10, 8])})},
        HALF,
        None,
    ),
    "gguf with an adapter": (
        {"q8.gguf": gguf(Q8), "lora.gguf": gguf({"blk.0.attn_q.weight.lora_a": (0, [8, 2])}, general__type="adapter")},
        layer_bytes(Q8),
        None,
    ),
    "gguf with an importance matrix": (
        {"q8.gguf": gguf(Q8), "imatrix.gguf": gguf({"blk.0.attn_q.in_sum2": (0, [8])}, general__type="imatrix")},
        layer_bytes(Q8),
        None,
    ),
    "gguf with towers": (
        {"q8.gguf": gguf(Q8), "mmproj-f16.gguf": gguf(TOWER)},
        layer_bytes(Q8) | {"ends": layer_bytes(Q8)["ends"] + 100},
        None,
    ),
    "gguf with towers twice": (
        {
            "q8.gguf": gguf(Q8),
            "mmproj-f16.gguf": gguf({"v.blk.0.attn_q.weight": (1, [5, 5])}),
            "mmproj-f32.gguf": gguf(TOWER),
        },
        layer_bytes(Q8) | {"ends": layer_bytes(Q8)["ends"] + 100},
        None,
    ),
    "factors of positions": (
        {"q8.gguf": gguf(Q8 | {"rope_freqs.weight": (0, [4]), "rope_factors_long.weight": (0, [4])})},
        layer_bytes(Q8),
        None,
    ),
    "fp8 with scales": (
        {
            "model.safetensors": stored(
                BF16
                | {
                    "model.layers.1.mlp.up_proj.weight": ("F8_E4M3", [12, 8], 96),
                    "model.layers.1.mlp.up_proj.weight_scale_inv": ("F32", [1, 1], 4),
                }
            )
        },
        HALF | {"1": 2 * LAYER - 96 + 4},
        None,
    ),
    "scales of a cache": (
        {"model.safetensors": stored(BF16 | {"model.layers.1.self_attn.k_scale": ("F32", [1], 4)})},
        HALF | {"1": 2 * LAYER + 4},
        None,
    ),
    "fp8 as AMD has it": (
        {"model.safetensors": stored(BF16 | {"model.layers.1.mlp.up_proj.weight": ("F8_E4M3FNUZ", [12, 8], 96)})},
        HALF | {"1": 2 * LAYER - 96},
        None,
    ),
    "packed in words": (
        {
            "model.safetensors": stored(
                {name: own for name, own in BF16.items() if name != "model.layers.0.mlp.up_proj.weight"}
                | {
                    "model.layers.0.mlp.up_proj.qweight": ("I32", [1, 12], 48),
                    "model.layers.0.mlp.up_proj.qzeros": ("I32", [1, 2], 8),
                    "model.layers.0.mlp.up_proj.scales": ("F16", [1, 12], 24),
                    "model.layers.0.mlp.up_proj.g_idx": ("I32", [8], 32),
                }
            )
        },
        HALF | {"0": 2 * LAYER - 2 * 96 + 48 + 8 + 24 + 32},
        None,
    ),
    "packed in bytes": (
        {
            "model.safetensors": stored(
                BF16
                | {
                    "model.layers.0.mlp.up_proj.weight": ("U8", [48, 1], 48),
                    "model.layers.0.mlp.up_proj.weight.absmax": ("U8", [2], 2),
                    "model.layers.0.mlp.up_proj.weight.quant_map": ("F32", [16], 64),
                }
            )
        },
        HALF | {"0": 2 * LAYER - 2 * 96 + 48 + 2 + 64},
        None,
    ),
    "four bits": (
        {
            "model.safetensors": stored(
                BF16
                | {
                    "model.layers.0.mlp.up_proj.weight": ("F4", [12, 8], 48),
                    "model.layers.0.mlp.up_proj.weight_scale": ("F8_E8M0", [12, 1], 12),
                }
            )
        },
        HALF | {"0": 2 * LAYER - 2 * 96 + 48 + 12},
        None,
    ),
    "forms that are not read beside": ({"model.safetensors": stored(BF16), "pytorch_model.bin": b"PK"}, HALF, None),
    "forms that are not read alone": ({"model.h5": b"PK"}, WIDE, None),
}


@pytest.mark.filterwarnings("ignore::instances.InputWarning")
@pytest.mark.parametrize("form", FORMS)
def test_bytes_of_each_part_are_those_that_are_loaded(tmp_path, form):
    files, expected, choice = FORMS[form]
    graph = load_graph(fill(tmp_path, files), level="layer", weights=choice)
    assert part_bytes(graph) == pytest.approx(expected)


#: Files, and what is said of them.
DOUBTS = {
    "variant": (
        FORMS["smaller variant"][0],
        r"model\.safetensors counts, as transformers takes it, and not model\.fp16",
    ),
    "adapter": (FORMS["adapter beside"][0], r"adapter_model\.safetensors is an adapter, which does not count"),
    "adapter alone": (FORMS["adapter alone"][0], "is an adapter, which does not count"),
    "not read": (FORMS["forms that are not read alone"][0], r"model\.h5 is not read; convert it to safetensors"),
    "folder": ({"Q8/q8.gguf": gguf(Q8)}, r"weights lie in Q8/; weights='Q8/q8\.gguf' counts them"),
    "index alone": (
        {"model.safetensors.index.json": index(("a.safetensors", FIRST))},
        r"names 1 files of weights, as a\.safetensors",
    ),
    "pieces": ({"q8.gguf.part1of2": b"GGUF"}, r"q8\.gguf\.part1of2 is a piece of a file; join them"),
    "towers twice": (FORMS["gguf with towers twice"][0], r"of 2 files of towers the largest counts, mmproj-f32\.gguf"),
}


@pytest.mark.parametrize("name", DOUBTS)
def test_what_does_not_count_is_named(tmp_path, name):
    files, message = DOUBTS[name]
    with pytest.warns(InputWarning) as told:
        load_graph(fill(tmp_path, files))
    assert any(re.search(message, str(one.message)) for one in told)


#: Files, and how they are refused.
REFUSED = {
    "several gguf": (
        {"q8.gguf": gguf(Q8), "q4.gguf": gguf(Q4)},
        r"2 sets of weights lie in it, q4\.gguf \(.*\), q8\.gguf \(.*\); choose one, as in weights='q4\.gguf'",
    ),
    "larger variant": (
        {"model.safetensors": stored(BF16), "model.fp32.safetensors": stored(F32)},
        r"2 sets of weights lie in it, model\.safetensors \(.*; choose one, as in weights='model\.safetensors'",
    ),
    "missing part of gguf": (
        {"q8-00001-of-00002.gguf": gguf(HALVES[0])},
        r"q8-00002-of-00002\.gguf: this part .* miss",
    ),
    "missing part of an index": (
        {
            "a.safetensors": stored(FIRST),
            "model.safetensors.index.json": index(("a.safetensors", FIRST), ("b.st", SECOND)),
        },
        r"b\.st: this part of the weights is missing",
    ),
    "index that leads away": (
        {
            "a.safetensors": stored(FIRST),
            "model.safetensors.index.json": index(("a.safetensors", FIRST), ("../../b.safetensors", SECOND)),
        },
        r"\.\./b\.safetensors: this part of the weights is missing",
    ),
    "index of other tensors": (
        {"a.safetensors": stored(FIRST), "model.safetensors.index.json": index(("a.safetensors", SECOND))},
        r"index\.json: tensor .* is not in a\.safetensors; get index and weights anew",
    ),
    "a part twice beside another": (
        {
            "l-00001-of-00002 (1).gguf": gguf(HALVES[0]),
            "l-00001-of-00002.gguf": gguf(HALVES[0]),
            "l-00002-of-00002.gguf": gguf(HALVES[1]),
        },
        r"2 sets of weights lie in it, .*; choose one, as in weights='l-00001-of-00002\.gguf'",
    ),
    "index of nothing": (
        {"a.safetensors": stored(FIRST), "model.safetensors.index.json": json.dumps({"weight_map": {}}).encode()},
        r"index\.json: its weight_map names no tensor; get the index anew",
    ),
    "a part twice": (
        {"model-00001-of-00002.safetensors": stored(BF16), "model-00002-of-00002.safetensors": stored(FIRST)},
        r"model-00002-of-00002\.safetensors: tensor .* is in model-00001-of-00002\.safetensors, too",
    ),
    "a tensor twice": (
        {"model.safetensors": stored(BF16).replace(b"layers.1.mlp.up", b"layers.0.mlp.up")},
        "up_proj.weight is there twice",
    ),
    "a part of another number": (
        {"q8-00001-of-00001.gguf": gguf(Q8, split__no=1, split__count=2)},
        r"q8-00001-of-00001\.gguf: it says that it is part 2 of 2",
    ),
    "a part that is called a whole": ({"q8.gguf": gguf(HALVES[1], split__no=1, split__count=2)}, "it is part 2 of 2"),
    "numbers of parts": (
        {"q8-00003-of-00002.gguf": gguf(Q8)},
        r"q8-00003-of-00002\.gguf: its name counts parts wrongly",
    ),
    "a pointer": ({"model.safetensors": POINTER}, r"model\.safetensors: this is a pointer of Git LFS, not the file"),
    "a pointer of gguf": ({"q8.gguf": POINTER}, r"q8\.gguf: this is a pointer of Git LFS"),
    "a layer that lacks a matrix": (
        {"q8.gguf": gguf({name: own for name, own in Q8.items() if name != "blk.1.ffn_up.weight"})},
        "the tensors of layer 1 have 400 elements, and the configuration asks for 496",
    ),
    "an absurd shape": ({"q8.gguf": gguf(Q8 | {"output.weight": (0, [2**40, 2**40])})}, "output.weight ends after the"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_weights_that_contradict_themselves_are_refused_by_name(tmp_path, name):
    files, message = REFUSED[name]
    path = fill(tmp_path, files)
    with pytest.raises(InputError, match=message) as caught:
        load_graph(path)
    assert "\n" not in str(caught.value)


def test_the_word_is_one_of_all_verbs(tmp_path, monkeypatch, capsys):
    """A file is named from the folder of the configuration or from here; a memory that it does not fit into says so."""
    path = fill(tmp_path, {"q8.gguf": gguf(Q8), "q4.gguf": gguf(Q4)})
    sums = {name: sum(layer_bytes(tensors).values()) for name, tensors in (("q8", Q8), ("q4", Q4))}
    for name, size in sums.items():
        for choice in (f"{name}.gguf", tmp_path / f"{name}.gguf"):
            assert mtpp.load(path, weights=choice).held_total == pytest.approx(size)
    monkeypatch.chdir(tmp_path.parent)
    memory = ["--memory", str(sums["q4"] + 1), "--activation-buffer", "0", "--fit"]
    asked = ["certify", str(path), "-k", "1", "--level", "layer", *memory]
    assert main(asked) == 2
    assert "--weights q4.gguf" in capsys.readouterr().err
    assert main([*asked, "--weights", "q4.gguf"]) == 0
    assert main([*asked, "--weights", f"{tmp_path.name}/q8.gguf"]) == 5
    assert main(["serve", str(path), "-k", "2", "--memory", "1MB", "--weights", "q8.gguf"]) == 0
    assert main(["place", str(path), "-k", "2", "--weights", "q4.gguf", "--time-limit", "1"]) == 0
    for words in ({"training": True}, {"weights": "missing.gguf"}, {"weights": "config.json"}):
        with pytest.raises(InputError, match=r"weights|there is no such file"):
            mtpp.load(path, **{"weights": "q4.gguf"} | words)
    with pytest.raises(InputError, match="bert-base: architectures take no weights"):
        mtpp.load("bert-base", weights="q4.gguf")


def test_times_follow_the_stored_width(tmp_path):
    """A step of decoding that reads 4 bits a number takes as long as its bytes, not as those of element_bytes."""
    path = fill(tmp_path, {"q4.gguf": gguf(Q4), "q8.gguf": gguf(Q8)})
    slow = {"dims": {"phase": "decode"}, "memory_bandwidth": "1kB/s", "peak_flops": 1e30}
    small, large = (mtpp.load(path, weights=f"{name}.gguf", **slow) for name in ("q4", "q8"))
    stored = [small.held_total - small.state_bytes.sum(), large.held_total - large.state_bytes.sum()]
    assert large.work.sum() - small.work.sum() == pytest.approx((stored[1] - stored[0]) / 1e3, rel=1e-6)


def test_llama_cpp_loads_a_head_that_is_there_beside_the_table(tmp_path):
    """A tied configuration whose GGUF has a head has the bytes of both."""
    (tmp_path / "q8.gguf").write_bytes(gguf(Q8))
    path = written(tmp_path, LLAMA | {"tie_word_embeddings": True})
    assert part_bytes(load_graph(path, level="layer"))["ends"] == layer_bytes(Q8)["ends"]
    (tmp_path / "q8.gguf").write_bytes(gguf({name: own for name, own in Q8.items() if name != "output.weight"}))
    assert part_bytes(load_graph(path, level="layer"))["ends"] == layer_bytes(Q8)["ends"] - 320


def test_weights_in_place_of_a_configuration_are_refused_with_what_works(tmp_path):
    path = fill(tmp_path, {"q8.gguf": gguf(Q8)})
    with pytest.raises(InputError, match=r"q8\.gguf: nothing is known .*; give the config.json .* weights='q8\.gguf'"):
        load_graph(tmp_path / "q8.gguf")
    assert load_graph(path, weights="q8.gguf").n > 0
    (tmp_path / "model.safetensors").write_bytes(stored(BF16))
    with pytest.raises(InputError, match=r"these are weights .*; give the config.json .* weights='model\.safetensors'"):
        load_graph(tmp_path / "model.safetensors")


def test_files_beside_a_configuration_are_refused_with_what_to_give(tmp_path):
    fill(tmp_path, {"generation_config.json": b'{"eos_token_id": 2}', "adapter_config.json": b'{"peft_type": "LORA"}'})
    with pytest.raises(InputError, match=r"the configuration of the model beside it is config\.json"):
        load_graph(tmp_path / "generation_config.json")
    with pytest.raises(InputError, match=r"this is an adapter; give the config\.json of the model that it adapts"):
        load_graph(tmp_path / "adapter_config.json")


def test_a_cache_of_a_hub_names_the_model_and_a_link_to_nothing_is_refused(tmp_path):
    folder = tmp_path / "models--org--Tiny-1" / "snapshots" / "0a1b"
    folder.mkdir(parents=True)
    blobs = folder.parent.parent / "blobs"
    blobs.mkdir()
    (blobs / "a").write_bytes(stored(BF16))
    written(blobs, LLAMA).rename(blobs / "b")
    (folder / "config.json").symlink_to("../../blobs/b")
    (folder / "model.safetensors").symlink_to("../../blobs/a")
    graph = load_graph(folder)
    assert (graph.name, graph.held_total) == ("Tiny-1", 2 * 1160)
    (blobs / "a").unlink()
    with pytest.raises(InputError, match=r"model\.safetensors: this link leads to no file; get the file anew"):
        load_graph(folder)
