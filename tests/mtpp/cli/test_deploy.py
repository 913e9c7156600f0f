"""``mtpp serve --servers``: deployments from the command line, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers_configurations import LLAMA, written
from weight_files import gguf, named_as_gguf, stored, stored_bytes, tensors_of_gguf

import mtpp
from instances.errors import InputWarning
from instances.runtimes import RUNTIMES
from instances.serving.costs import costs_of
from instances.serving.problem import ONE_BATCH
from mtpp.cli.main import main
from mtpp.problems.checking import result_document
from mtpp.questions.serving import NO_DEGREE, ONE_DEGREE, model_of


def test_a_deployment_is_found_written_verified_and_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deployment.json"
    words = ["serve", "llama-3-8b", "--servers", "1x2xA100", "--batch", "64", "--for", "vllm", "--out", str(out)]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "optimal" in shown
    assert "2000" in shown
    assert main(["verify", str(out)]) == 0
    assert main(["explain", str(out)]) == 0
    assert main(["verify", str(out), "--graph", "llama-3-8b"]) == 0
    capsys.readouterr()
    assert main(["verify", str(out), "--graph", "llama-3-70b"]) == 1
    assert "question.graph: it is not llama-3-70b: 32 layers against 80" in "".join(capsys.readouterr())
    assert main(["verify", str(out), "--graph", "llama-2-7b"]) == 1
    assert "8030261248 parameters against 6738415616" in "".join(capsys.readouterr())
    stated = ["--graph", "llama-3-8b", "--servers", "1x2xA100", "--batch", "64", "--for", "vllm", "--degrees", "1,2"]
    assert main(["verify", str(out), *stated, "--input", "1000", "--between", "50GB/s", "--kv", "bf16"]) == 0
    compared = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("compared"))
    assert all(word in compared for word in [*stated[::2], "--input", "--between", "--kv"])
    assert main(["verify", str(out), "-k", "4"]) == 2
    assert "-k says nothing of a deployment" in capsys.readouterr().err
    assert main(["export", str(out), "--for", "vllm"]) == 0
    assert "--max-model-len 2000" in capsys.readouterr().out
    assert main(["export", str(out), "--for", "accelerate"]) == 2


@pytest.mark.parametrize(
    ("words", "difference"),
    [
        ({"servers": "1x2xH100"}, "servers is 1x2xL4, you ask for 1x2xH100"),
        ({"servers": "2x2xL4"}, "servers is 1x2xL4, you ask for 2x2xL4"),
        ({"between": "1GB/s"}, "between is 50 GB/s, you ask for 1 GB/s"),
        ({"input": 9}, "input is 8, you ask for 9"),
        ({"output": 9}, "output is 8, you ask for 9"),
        ({"kv": "fp8"}, "kv is bf16, you ask for fp8"),
        ({"reserve": "mean"}, "reserve is full, you ask for mean"),
        ({"degrees": "1"}, "degrees is 1,2, you ask for 1"),
        ({"batch": 5}, "batch is 4, you ask for 5"),
        ({"tpot": "2s"}, "tpot is 1 s, you ask for 2 s"),
        ({"ttft": "2s"}, "ttft is unlimited, you ask for 2 s"),
        ({"objective": "latency"}, "objective is throughput, you ask for latency"),
        ({"topology": "chain"}, "topology is replicas, you ask for chain"),
        ({"prefill": "none"}, "prefill is mixed, you ask for none"),
        ({"price": "3"}, "price is 2, you ask for 3"),
        ({"runtime": "vllm"}, "runtime is None, you ask for vllm"),
    ],
)
def test_verify_says_in_words_what_else_was_asked(words: dict[str, Any], difference: str, tmp_path: Path) -> None:
    asked = {"servers": "1x2xL4", "input": 8, "output": 8, "batch": 4, "tpot": 1.0, "price": "2"}
    file = mtpp.serve("gpt2", **asked).save(tmp_path / "deployment.json")
    same = {"servers": "1x2xL4", "between": "50GB/s", "kv": "bf16", "tpot": 1.0, "price": "2", "degrees": "1,2"}
    assert mtpp.verify(file, **same).faults == ()
    assert mtpp.verify(file, **words).faults == (f"question: {difference}",)


def test_verify_says_how_servers_of_one_name_differ(tmp_path: Path) -> None:
    card = {"kind": "card", "devices": 1, "peak_flops": 1e14, "memory_bandwidth": 1e12, "memory": 24e9}
    for name, memory in (("own", 24e9), ("other", 25e9)):
        document = {"format": "mtpp-servers/1", "servers": [card | {"memory": memory}]}
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    file = mtpp.serve("gpt2", servers=tmp_path / "own.json", input=8, output=8, batch=4).save(tmp_path / "d.json")
    assert mtpp.verify(file, servers=tmp_path / "own.json").faults == ()
    other = mtpp.verify(file, servers=tmp_path / "other.json").faults
    assert other == ("question: memory of card is 24000000000.0, you ask for 25000000000.0",)


def test_servers_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "servers.json"
    cards = {"kind": "card", "devices": 2, "peak_flops": 1e14, "memory_bandwidth": 1e12, "memory": 24e9, "within": 2e10}
    file.write_text(json.dumps({"format": "mtpp-servers/1", "servers": [cards, {"kind": "L4", "devices": 1}]}))
    answer = mtpp.serve("llama-3-8b", servers=file, batch=16).answer
    assert [servers.label for servers in answer.instance.servers] == ["1x2xcard", "1x1xL4"]
    file.write_text(json.dumps({"format": "mtpp-servers/1", "servers": [cards | {"within": None}]}))
    with pytest.raises(mtpp.InputError, match='card has no link within its server; give "within"'):
        mtpp.serve("llama-3-8b", servers=file)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--servers", "1x8xA100", "--tpot", "1ms"], "tpot is 1 ms; no chain is faster than"),
        (["--servers", "2x8xA100", "--prefill", "pools", "--tpot", "1ms"], "tpot is 1 ms; no chain is faster than"),
        (["--servers", "1x2xA100", "--prefill", "pools", "--input", "10"], "no two pools fit beside each other"),
        (
            ["--servers", "1x8xA100", "--degrees", "x"],
            "--degrees x: 'x' is not a whole number; give for example",
        ),
        (["--servers", "1x8xA100", "--price", "1e300"], "price is 1e+300; give 0 to 1e12"),
        (["--servers", "1x4xL4"], "141.1 GB of weights do not fit into 96 GB"),
        (["--servers", "1x8xA100", "--degrees", "3"], "degree 3 does not divide 64 heads; give 1, 2, 4, 8"),
        (["--servers", "1x8xA100", "--tpot", "nan"], "--tpot nan: give a positive time"),
        (["--servers", "1x8xA100", "--ttft", "0"], "--ttft 0: give a positive time"),
        (["--servers", "1x8xA100", "--weights", "fp9"], "weights is 'fp9'; did you mean fp8? Give one of bf16"),
        (["--servers", "1x8xFoo"], "There is no kind of devices 'Foo'"),
        (["--servers", "8xA100"], "give them as 2x8xH100,1x4xL4"),
        (["--servers", "1x8xA100", "-k", "4"], "--servers say how many devices there are"),
        (["--servers", "1x8xA100", "--dim", "batch=4"], "it is none of --servers"),
        (["--servers", "1x8xA100", "--objective", "cost"], "The least cost needs prices"),
        (["--servers", "1x8xA100", "--price", "1,2"], "give 1 number, one for each kind of servers"),
        (["--servers", "1x8xA100", "--for", "accelerate"], "deployments are for vllm"),
        (["-k", "4", "--memory", "80GB", "--input", "100"], "--input 100: it is for --servers"),
        (["-k", "4", "--memory", "80GB", "--front", "3"], "--front 3: it is for --servers"),
        (["--servers", "1x8xA100", "--input", "1,2"], "--input 1,2: several are for --front; give one, or that, too"),
        (["--servers", "1x8xA100", "--input", "0"], "--input 0: each number must be 1 or more"),
        (["--servers", "1x8xA100", "--front", "3", "--tpot", "1ms"], "tpot is 1 ms; no chain is faster than"),
        (["--servers", "1x8xA100", "--front", "0"], "--front 0: "),
        (["--servers", "1x8xA100", "--front", "3", "--objective", "latency"], "--front 3: it is of the most tokens"),
    ],
)
def test_what_is_refused_is_one_line(words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "llama-3-70b", *words]) in (2, 5)
    said = [text for text in capsys.readouterr().err.splitlines() if not text.startswith("mtpp: compiling")]
    assert len(said) == 1
    assert line in said[0]


@pytest.mark.parametrize(
    "words",
    [
        {"tpot": 1e9},
        {"ttft": 1e9, "servers": "2x1xH100"},
        {"between": "1e-300GB/s", "servers": "2x1xH100"},
        {"input": 10**7, "output": 1, "kv": "fp8", "weights": "fp8", "servers": "1x8xH200"},
    ],
)
def test_bug_times_of_years_were_more_than_64_bits(words: dict[str, Any]) -> None:
    unlimited = model_of("llama-3-8b")
    result = mtpp.serve(unlimited, **{"servers": "1x1xH100", "time_limit": None, "batch": 8} | words)
    assert result.proved or result.impossible


def test_bug_names_of_kinds_were_lines_of_commands(tmp_path: Path) -> None:
    file, card = tmp_path / "servers.json", {"devices": 1, "peak_flops": 1e14, "memory_bandwidth": 1e12, "memory": 8e10}
    for name in ("card\nrm", "", "c" * 65):
        file.write_text(json.dumps({"format": "mtpp-servers/1", "servers": [card | {"kind": name}]}))
        with pytest.raises(mtpp.InputError, match="no name of 1 to 64 characters"):
            mtpp.serve("llama-3-8b", servers=file)


def test_bug_chains_that_take_prompts_were_left_out(tmp_path: Path) -> None:
    out = tmp_path / "pools.json"
    words = {"servers": "1x2xA100", "prefill": "pools", "runtime": "vllm", "batch": 64, "reserve": "mean"}
    out.write_text(json.dumps(result_document(mtpp.serve("llama-3-8b", **words))))
    lines = str(mtpp.export(out, "vllm")).splitlines()
    assert [line.count("prompts/s") for line in lines if "each" in line] == [1, 0]
    assert [line.split("--max-model-len ")[1] for line in lines if "--max-model-len" in line] == ["1001", "2000"]
    assert str(mtpp.explain(out)).count("in flight") == 2


def test_bug_pages_and_explanations_left_out_what_was_asked() -> None:
    """Limits of time, degrees, links, and room for the mean; bars of caches were called "send"."""
    words = {"servers": "1x2xA100", "tpot": "50ms", "ttft": "1s", "reserve": "mean", "degrees": "1,2"}
    found = mtpp.serve("llama-3-8b", **words)
    page = mtpp.report(found)
    for text in ("tpot 0.05 s, ttft 1 s", "degrees 1,2, batches of at most 4096", "room for their mean", "between"):
        assert text in page
        assert text in found.instance.question_words
    assert ": caches " in page
    assert ": send " not in page
    assert "tpot at most 50.00 ms, ttft at most 1.000 s." in str(mtpp.explain(found))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ({"objective": "speed"}, "objective='speed': give one of throughput, latency, cost"),
        ({"topology": "flow"}, "topology='flow': give one of chain, replicas"),
        ({"reserve": "all"}, "reserve='all': give one of full, mean"),
        ({"prefill": "apart"}, "prefill='apart': give one of mixed, pools, none"),
        ({"prefill": "prompts"}, "prefill='prompts': give one of mixed, pools, none"),
        ({"servers": 3}, "servers=3: give a text such as 2x8xH100, a file"),
        ({"servers": []}, "give a text such as 2x8xH100, a file"),
        ({"servers": ["1x1xH100"]}, "give a text such as 2x8xH100, a file"),
    ],
)
def test_bug_words_of_python_were_not_looked_at(words: dict[str, Any], line: str) -> None:
    with pytest.raises(mtpp.InputError, match=line):
        mtpp.serve("llama-3-8b", **{"servers": "1x1xH100"} | words)


def test_bug_the_reason_why_nothing_fits_was_sought_for_ever() -> None:
    """Weights fit, and no sequence has room beside them, whatever the limits."""
    result = mtpp.serve(model_of("llama-3-8b"), servers="1x1xL4", input=1000000)
    assert "no chain has room for weights and a sequence of 1001000 tokens" in str(result.impossible)


def test_cost_is_that_of_the_cheapest_servers() -> None:
    result = mtpp.serve("llama-3-8b", servers="1x1xA100,1x1xH100", objective="cost", price="2,40")
    assert [chain.words for chain, _ in result.answer.chains] == ["A100 tp1 32"]
    assert result.answer.price == pytest.approx(2 / 3600 / result.answer.rate * 1e6)


def test_bug_a_price_was_called_a_time(tmp_path: Path) -> None:
    """The least price of a token was printed in seconds, and exported as tokens a second."""
    result = mtpp.serve("llama-3-8b", servers="1x1xA100,1x1xH100", objective="cost", price="2,40")
    answer = tmp_path / "cheapest.json"
    result.save(answer)
    price = f"{result.answer.price:.4g}"
    assert f"price a token {result.cost:.6g} currency units" in repr(result)
    assert f"price a token {result.cost:.6g} currency units" in str(mtpp.verify(answer))
    assert (
        f"A million tokens cost {price}; no deployment of chains gives them for less than {price} (chains"
        in " ".join(mtpp.explain(result).sentences())
    )
    assert f"no deployment gives 1e6 tokens for less than {price}\n" in mtpp.export(answer, "vllm")


def test_limits_of_time_change_no_costs() -> None:
    """What the steps of stages take is computed once for all limits of a front."""
    question = mtpp.serve("llama-3-8b", servers="1x1xA100", batch=4).instance
    assert costs_of(replace(question, tpot=0.05, ttft=1.0)) is costs_of(question)
    assert costs_of(replace(question, output=10)) is not costs_of(question)


def test_bug_settings_of_vllm_for_devices_without_bf16_did_not_start_a_model_in_it() -> None:
    """vLLM refuses such a model there and names the option; SGLang changes the numbers by itself."""

    def notes(runtime: str, **question: str) -> list[str]:
        result = mtpp.serve("llama-3-8b", runtime=runtime, **question)
        return [note for note in result.notes if "bf16" in note]

    assert notes("vllm", devices="4xT4") == ["T4 has no bf16; for a model in bf16 vllm wants --dtype half"]
    both = ["T4 and V100 have no bf16; for a model in bf16 vllm wants --dtype half"]
    assert notes("vllm", servers="1x2xT4,1x2xV100") == both
    assert notes("vllm", devices="4xL4") == notes("sglang", devices="4xT4") == []


@pytest.mark.parametrize("runtime", NO_DEGREE)
def test_bug_a_deployment_for_a_runtime_of_one_batch_had_several_in_flight(runtime: str, tmp_path: Path) -> None:
    """Its stages work at one batch, one after the other, as `mtpp serve -k` counts it."""
    assert {name for name in (*ONE_DEGREE, *NO_DEGREE) if RUNTIMES[name].one_batch} == {*ONE_BATCH}
    result = mtpp.serve("llama-3-8b", servers="1x2xL4", runtime=runtime, weights="int4", topology="chain", batch=64)
    assert set(RUNTIMES[runtime].caveats) <= set(result.notes)
    ((served, _),) = result.answer.chains
    assert served.chain.batches == 1
    assert served.cycle == sum(served.stage_times)
    answer = tmp_path / "deployment.json"
    result.save(answer)
    assert mtpp.verify(answer).faults == ()
    document = json.loads(answer.read_text())
    document["answer"]["sites"][0]["chains"][0]["batches"] = 2
    answer.write_text(json.dumps(document))
    assert any("are not allowed" in fault for fault in mtpp.verify(answer).faults)


def test_the_name_of_the_decoder_of_a_deployment_is_free(tmp_path: Path) -> None:
    model = model_of("llama-3-8b")
    renamed, wider = replace(model, name="mine"), replace(model, hidden=model.hidden + 1)
    answer = tmp_path / "deployment.json"
    result = mtpp.serve(renamed, servers="1x2xA100", batch=16)
    asked, named = result.instance, replace(result.instance, model=model)
    assert (named.question_hash, named.question_words) == (asked.question_hash, asked.question_words)
    result.save(answer)
    verdict = mtpp.verify(answer, graph="llama-3-8b")
    assert not verdict.faults
    mtpp.serve(wider, servers="1x2xA100", batch=16).save(answer)
    verdict = mtpp.verify(answer, graph="llama-3-8b")
    assert verdict.faults == ("question.graph: it is not llama-3-8b: sizes of layers are others",)


@pytest.mark.parametrize(
    ("quantization", "weights"),
    [
        (None, "bf16"),
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
        ({"quant_method": "mxfp4"}, "fp4"),
        ({"config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}}}, "fp8"),
    ],
)
def test_bug_quantised_weights_counted_as_two_bytes(
    tmp_path: Path, quantization: dict[str, Any] | None, weights: str
) -> None:
    config = written(tmp_path, LLAMA | {"quantization_config": quantization})
    assert mtpp.serve(config, servers="1x1xL4", input=8, output=8).answer.instance.weights == weights
    assert mtpp.serve(config, servers="1x1xL4", input=8, output=8, weights="fp16").answer.instance.weights == "fp16"


@pytest.mark.parametrize(
    "quantization", [{"bits": [4]}, {"bits": 3}, ["awq"], {"config_groups": {"a": {"weights": 1}}}]
)
def test_of_weights_that_are_quantised_in_unknown_numbers_a_line_says_so(tmp_path: Path, quantization: Any) -> None:
    config = written(tmp_path, LLAMA | {"quantization_config": quantization})
    with pytest.warns(InputWarning, match="in what numbers its weights are quantised is not known; weights says"):
        assert mtpp.serve(config, servers="1x1xL4", input=8, output=8).answer.instance.weights == "bf16"


def test_bug_sequences_were_longer_than_a_decoder_takes(tmp_path: Path) -> None:
    """By default they are no longer."""
    config = written(tmp_path, LLAMA | {"max_position_embeddings": 100})
    for given, lengths in (({}, (50, 50)), ({"input": 80}, (80, 20)), ({"output": 30, "input": 70}, (70, 30))):
        asked = mtpp.serve(config, servers="1x1xL4", **given).answer.instance
        assert (asked.input, asked.output) == lengths
    with pytest.raises(mtpp.InputError, match=r"prompts of 80 and outputs of 21: .* takes sequences of 100 tokens"):
        mtpp.serve(config, servers="1x1xL4", input=80, output=21)
    with pytest.raises(mtpp.InputError, match="takes sequences of 100 tokens; give less"):
        mtpp.serve(config, servers="1x1xL4", input=100)


_SIZES = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128}
_SHAPES = {
    **{"self_attn.q_proj": [64, 64], "self_attn.k_proj": [32, 64], "self_attn.v_proj": [32, 64]},
    **{"self_attn.o_proj": [64, 64], "mlp.gate_proj": [128, 64], "mlp.up_proj": [128, 64], "mlp.down_proj": [64, 128]},
    **{"input_layernorm": [64], "post_attention_layernorm": [64]},
}
_LAYERS = {f"model.layers.{i}.{name}.weight": shape for i in (0, 1) for name, shape in _SHAPES.items()}
_ENDS = {"model.embed_tokens.weight": [512, 64], "model.norm.weight": [64], "lm_head.weight": [512, 64]}
_ASKED: dict[str, Any] = {"servers": "1x1xL4", "input": 8, "output": 8}


def _quantised(kind: int) -> bytes:
    """A GGUF file whose matrices have this type."""
    shapes = {named_as_gguf(name): shape for name, shape in (_LAYERS | _ENDS).items()}
    return gguf({name: (kind if len(shape) > 1 else 0, shape) for name, shape in shapes.items()}) + bytes(2**18)


def test_bug_bytes_of_weights_beside_a_configuration_did_not_count(tmp_path: Path) -> None:
    """Those of 16 bits ask the same as none; a width that is given counts before a file."""
    config = written(tmp_path, LLAMA | _SIZES | {"vocab_size": 512})
    alone = mtpp.serve(config, **_ASKED).answer.instance
    (tmp_path / "model.safetensors").write_bytes(stored(stored_bytes("BF16", 2, _LAYERS | _ENDS)))
    assert mtpp.serve(config, **_ASKED).answer.instance.question_hash == alone.question_hash
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "tiny-Q8_0.gguf").write_bytes(_quantised(8))
    result = mtpp.serve(config, **_ASKED)
    asked = result.answer.instance
    matrices, vectors = 2 * 36864 + 2 * 32768, 5 * 64
    assert sum(result.answer.chains[0][0].weight_bytes) == pytest.approx(matrices * 34 / 32 + 4 * vectors, abs=2)
    assert asked.question_words.count("in bf16, bytes as stored") == 1
    assert f"Assumed: bytes of weights as in {tmp_path}/tiny-Q8_0.gguf, caches of 2 bytes; weights" in result.notes[0]
    file = result.save(tmp_path / "answer.json")
    assert mtpp.verify(file, graph=config).faults == ()
    assert mtpp.serve(config, weights="bf16", **_ASKED).answer.instance.question_hash == alone.question_hash
    other = replace(result.answer.instance.model, stored=(1, 2))
    mtpp.serve(other, **_ASKED).save(file)
    assert mtpp.verify(file, graph=config).faults == (
        f"question.graph: it is not {config}: sizes of layers are others",
    )


def test_bug_a_width_on_the_command_line_was_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(written(tmp_path, LLAMA))
    words = ["serve", config, "--servers", "1x1xL4", "--input", "8", "--output", "8", "--weights"]
    assert main([*words, "fp8"]) == 0
    capsys.readouterr()
    assert main([*words, "fp9"]) == 2
    assert "weights is 'fp9'; did you mean fp8" in capsys.readouterr().err


def test_of_several_files_of_weights_one_is_chosen(tmp_path: Path) -> None:
    config = written(tmp_path, LLAMA | _SIZES | {"vocab_size": 512})
    for kind, name in ((8, "tiny-Q8_0.gguf"), (2, "tiny-Q4_0.gguf")):
        (tmp_path / name).write_bytes(_quantised(kind))
    sizes = [
        sum(mtpp.serve(config, weights=name, **_ASKED).answer.chains[0][0].weight_bytes)
        for name in ("tiny-Q8_0.gguf", tmp_path / "tiny-Q4_0.gguf")
    ]
    assert sizes[0] > 1.7 * sizes[1]
    for words, line in (
        ({}, "2 sets of weights lie in it, .*; choose one, as in weights='tiny-Q4_0.gguf'"),
        ({"weights": "fp9"}, "weights is 'fp9'; did you mean fp8"),
        ({"weights": "tiny-Q5_0.gguf"}, "tiny-Q5_0.gguf: there is no such file"),
    ):
        with pytest.raises(mtpp.InputError, match=line):
            mtpp.serve(config, **_ASKED, **words)
    (tmp_path / "tiny-Q8_0.gguf").unlink()
    (tmp_path / "tiny-Q4_0.gguf").rename(tmp_path / "tiny-00001-of-00002.gguf")
    with pytest.raises(mtpp.InputError, match=r"tiny-00002-of-00002.gguf: this part of the weights is missing"):
        mtpp.serve(config, **_ASKED)
    (tmp_path / "tiny-00001-of-00002.gguf").write_bytes(gguf(tensors_of_gguf()) + bytes(2**18))
    (tmp_path / "tiny-00001-of-00002.gguf").rename(tmp_path / "other.gguf")
    with pytest.raises(mtpp.InputError, match="these are weights of another model"):
        mtpp.serve(config, **_ASKED)


def test_a_front_has_the_best_deployment_for_each_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rates rise with the time of a token, and longer prompts cost some; each point is the answer to its question."""
    words = {"servers": "1x2xA100", "output": 200, "batch": 32}
    found = mtpp.serve("llama-3-8b", **words, front=3, input="500,1000", tpot="20ms")
    assert [result.instance.input for result in found] == [500, 500, 500, 1000, 1000, 1000]
    assert all(result.proved and result.answer.tpot <= result.instance.tpot for result in found)
    rates, times = ([getattr(result.answer, name) for result in found] for name in ("rate", "tpot"))
    assert all(values == sorted(set(values)) for part in (rates, times) for values in (part[:3], part[3:]))
    assert all(short > long for short, long in zip(rates[:3], rates[3:], strict=True))
    quickest = mtpp.serve("llama-3-8b", **words, input=500, objective="latency")
    assert times[0] == quickest.answer.tpot
    alone = mtpp.serve("llama-3-8b", **words, input=500, tpot=found[1].instance.tpot)
    assert alone.answer.rate == rates[1]
    limits = ["--front", "3", "--input", "500,1000", "--tpot", "20ms"]
    asked = ["serve", "llama-3-8b", "--servers", "1x2xA100", "--output", "200", "--batch", "32", *limits]
    out, picture = tmp_path / "front.json", tmp_path / "front.svg"
    assert main([*asked, "--out", str(out), "--plot", str(picture)]) == 0
    header, *rows = capsys.readouterr().out.split("\n\n")[0].splitlines()
    assert [float(row.split()[header.split().index("tokens/s")]) for row in rows] == pytest.approx(rates, rel=1e-5)
    assert all("A100" in row for row in rows)
    drawing = picture.read_text()
    assert all(words in drawing for words in ("700 tokens", "1200 tokens", "time of a token [ms]", "rate [tokens/s]"))
    assert main(["verify", *(str(tmp_path / f"front-{i}.json") for i in range(1, 7))]) == 0
    capsys.readouterr()
    assert main([*asked, "--json"]) == 0
    assert [point["answer"]["rate"] for point in json.loads(capsys.readouterr().out)] == pytest.approx(rates)


def test_a_front_of_pools_leaves_out_what_no_pools_keep() -> None:
    found = mtpp.serve("llama-3-8b", servers="1x4xA100", prefill="pools", batch=16, front=4)
    assert all(result.answer.prompt_chains for result in found)
    assert len(found) > 1


def test_notes_and_reasons_name_the_limit_that_counts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The most sequences of a batch, the part of the memory that may be filled, and decoders alone as other names."""
    assert main(["serve", "gpt2", "--servers", "1x1xA100", "--batch", "9"]) == 0
    assert "a batch has the most sequences that it may have, 9; --batch changes it." in capsys.readouterr().out
    assert main(["serve", "llama-3-8b", "--servers", "1x1xA100"]) == 0
    assert "the most sequences" not in capsys.readouterr().out
    card = {"kind": "card", "devices": 1, "peak_flops": 1e14, "memory_bandwidth": 1e12, "memory": 16.5e9}
    (tmp_path / "servers.json").write_text(json.dumps({"format": "mtpp-servers/1", "servers": [card]}))
    assert main(["serve", "llama-3-8b", "--servers", str(tmp_path / "servers.json")]) == 5
    assert "16.06 GB of weights do not fit into 16.5 GB, of which 14.97 GB may be filled" in capsys.readouterr().err
    assert main(["serve", "t5-small", "--servers", "1x1xA100"]) == 2
    assert "give gpt2, llama-2-7b" in capsys.readouterr().err


def test_bug_limits_of_a_front_were_none_that_could_be_stated(tmp_path: Path) -> None:
    """7.48 times a thousandth is no nearest number to 0.00748."""
    file = mtpp.serve("gpt2", servers="1x1xL4", input=8, output=8, batch=4, tpot=0.00748).save(tmp_path / "d.json")
    assert mtpp.verify(file, tpot="7.48ms").faults == ()
