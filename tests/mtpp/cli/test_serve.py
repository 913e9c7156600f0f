"""The verb serve, the words of runtimes, and their rules in other verbs, as the command line has them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from command_line import assert_impossible, assert_misuse, mtpp
from runtime_readers import READERS
from transformers_configurations import written

from instances.graph.display import figures
from instances.runtimes import RUNTIMES
from instances.runtimes.serving_front import Front
from mtpp import read, report, serve
from mtpp.plots.partitions import plot_front

GPT2 = "gpt2 -k 3 --dim phase=decode --dim batch=32"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_front_words_and_file(capsys: pytest.CaptureFixture[str]) -> None:
    """All cuts that none beats; the answer is the first or the last; the file is proved again by verify."""
    asked = "serve gpt2 -k 3 --memory 400MB --dim batch=32 --dim context=32"
    assert mtpp(f"{asked} --out front.json --plot front.png") == 0
    out = capsys.readouterr().out
    rows, notes, stages, words, question = out.strip().split("\n\n")
    assert notes.splitlines()[1].startswith("times: 32 tokens of context")
    fastest = rows.splitlines()[1].split()[0]
    assert words == (
        f'VLLM_PP_LAYER_PARTITION={fastest} vllm serve "$MODEL" --tensor-parallel-size 1 --pipeline-parallel-size 3 '
        "--max-num-seqs 96 --max-model-len 33"
    )
    assert len(stages.splitlines()) == 4
    assert Path("front.png").stat().st_size > 0
    assert mtpp(f"verify front.json --question {question.split()[1]}") == 0
    assert "no cut beats one is proved again" in capsys.readouterr().out
    assert mtpp("verify front.json -k 3 --in-flight 2") == 1
    assert "question: in flight is 3, you ask for 2" in "".join(capsys.readouterr())
    assert mtpp("verify front.json -k 3 --in-flight 3") == 0
    assert "compared  -k, --in-flight" in capsys.readouterr().out
    assert mtpp("export front.json --for vllm") == 0
    assert capsys.readouterr().out.splitlines()[1] == words
    assert mtpp("export front.json --for tensorrt-llm") == 0
    assert "\nmax_batch_size: 32\nmax_seq_len: 33\n" in capsys.readouterr().out
    assert mtpp("export front.json --for galvatron") == 0
    assert json.loads(capsys.readouterr().out)["pp_division"] == fastest
    assert mtpp(f"{asked} --first capacity --json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["answer"]["chosen"] == len(document["answer"]["front"]) - 1
    assert document["answer"]["front"] == json.loads(Path("front.json").read_text())["answer"]["front"]
    stated = json.loads(Path("front.json").read_text())
    stated["answer"]["front"][0]["context"] += 1
    Path("false.json").write_text(json.dumps(stated))
    assert mtpp("verify false.json") == 1


def test_bug_a_speed_stood_beside_a_context_that_its_batches_have_no_room_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """11,338.9 tokens/s stood beside a context of 17,014; the four batches that it needs fit to 4,253."""

    def cuts(more: str) -> list[list[str]]:
        assert mtpp(f"serve llama-3-8b -k 4 --dim batch=32 --dim element_bytes=2 --quiet {more}") == 0
        return [line.split() for line in capsys.readouterr().out.split("\n\n")[0].splitlines()[1:]]

    fastest, even = cuts("--memory 24GB")
    assert fastest == ["8,9,9,6", "0.0112886", "11338.9", "4253", "4944.58", str(4 * 32 * 4253)]
    assert even == ["8,8,8,8", "0.0128474", "9963.13", "4637", "4735.19", str(4 * 32 * 4637)]
    (there,) = cuts("--memory 25GB --dim context=4637")
    assert there[:3] == ["8,8,8,8", "0.0270316", "4735.19"]
    assert cuts("--memory 24GB --in-flight 1") == [
        ["8,8,8,8", "0.0107366", "2980.47", "8192", "886.327", str(32 * 18549)]
    ]


def test_bug_a_memory_beside_kinds_limits_them(capsys: pytest.CaptureFixture[str]) -> None:
    """It was left out where all kinds state one, so that the line did not fit into what a runtime keeps of a card."""

    def tokens(more: str) -> list[str]:
        assert mtpp(f"serve gpt2 --devices 2xL4 --quiet {more}") == 0
        return [line.split()[-1] for line in capsys.readouterr().out.split("\n\n")[0].splitlines()[1:]]

    whole = tokens("")
    assert tokens("--memory 24GB") == tokens("--memory 30GB") == whole
    assert int(tokens("--memory 21GB")[0]) < int(whole[0])


def test_operators_are_not_served(capsys: pytest.CaptureFixture[str]) -> None:
    """Names of layers are none that OpenVINO knows."""
    assert_misuse(capsys, {"serve gpt2 -k 3 --memory 1GB --for openvino": "name a runtime of layers"})


def test_nothing_fits_is_proved(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 5, and one line that says how much would fit."""
    assert_impossible(capsys, "serve gpt2 -k 3 --memory 100MB", "no cut has room for a single token")
    assert mtpp("serve gpt2 -k 3 --memory 400MB --dim batch=32 --dim context=1024") == 5
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "are the most" in line


@pytest.mark.parametrize("name", list(READERS))
def test_certified_for_a_runtime_and_exported(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is proved is what is emitted: the certificate's cut, at operator level, in the words of the runtime."""
    network, layers = ("llama-2-7b", 32) if name in ("torch", "torchtitan", "accelerate") else ("gpt2", 12)
    graph = f"{network} --dim phase=decode --dim batch=32"
    assert mtpp(f"partition {graph} -k 3 --for {name} --method kahn --out answer.json --quiet") == 0
    capsys.readouterr()
    assert mtpp(f"export answer.json --for {name} --json") == 0
    document = json.loads(capsys.readouterr().out)
    stages = READERS[name](document["words"], layers, 3)
    answer = json.loads(Path("answer.json").read_text())["answer"]
    layer = [
        next(b for b, names in enumerate(answer["stages"]) for x in names if f"decoder.{i}." in x)
        for i in range(layers)
    ]
    assert stages[1:-1] == layer


@pytest.mark.slow
def test_export_of_a_certificate(capsys: pytest.CaptureFixture[str]) -> None:
    """It holds its graph; the bound that it states stands above the words, and the certificate beside the file."""
    assert mtpp(f"certify {GPT2} --level layer --for vllm --time-limit 5 --out c.json --quiet") == 0
    capsys.readouterr()
    assert mtpp("export c.json --for vllm --out words.env") == 0
    comment, words = Path("words.env").read_text().splitlines()
    assert comment.startswith("# gpt2, k = 3: c.json states that no answer takes less than ")
    assert words.startswith("VLLM_PP_LAYER_PARTITION=")
    assert Path("words.env.certificate.json").read_bytes() == Path("c.json").read_bytes()
    assert mtpp("export c.json --for galvatron") == 0
    assert json.loads(capsys.readouterr().out)["pp_deg"] == 3
    assert mtpp("verify c.json --time-limit 5") in (0, 4)


def test_export_keeps_what_it_reads(capsys: pytest.CaptureFixture[str]) -> None:
    """Words over a certificate would be the end of it."""
    Path("c.json").write_text("{}")
    Path("link.json").symlink_to("c.json")
    words = "this is a file to read"
    assert_misuse(capsys, {f"export c.json --for vllm --out {name}": words for name in ("c.json", "link.json")})
    assert Path("c.json").read_text() == "{}"
    assert sorted(os.listdir()) == ["c.json", "link.json"]


def test_a_name_ends_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The name of an instance comes from the file, and goes into a file that is sourced."""
    assert mtpp(f"certify {GPT2} --level layer --for vllm --time-limit 5 --out c.json --quiet") == 0
    document = json.loads(Path("c.json").read_text())
    document["question"]["graph"]["name"] = "x\nVLLM_PP_LAYER_PARTITION=1,1,10"
    Path("c.json").write_text(json.dumps(document))
    capsys.readouterr()
    assert mtpp("export c.json --for vllm") == 0
    comment, words = capsys.readouterr().out.splitlines()
    assert comment.startswith("# x")
    assert not words.endswith("1,1,10")


def test_export_of_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """A plan file holds its question."""
    assert mtpp("import bert-base --dim batch=4 --level layer --out graph.json --quiet") == 0
    words = "--cluster 2x1 --bandwidth 100Gbps,100Gbps --microbatches 8 --effort 0 --orders interleaved"
    assert mtpp(f"plan graph.json {words} --out plan.json --quiet") == 0
    capsys.readouterr()
    assert mtpp("export plan.json --for megatron") == 0
    stages = READERS["megatron"](capsys.readouterr().out, 12, 4)
    assert mtpp("export plan.json --for deepspeed") == 2  # it runs one stage on a device
    assert sorted(stages) == stages
    capsys.readouterr()
    assert_misuse(
        capsys,
        {
            "export plan.json --for torchtitan": "nothing tells the names of its modules in torchtitan",
            "export plan.json --for megatron --runtime-version 0.1": "settings are known of 0.16",
            "export plan.json --for vllm": "here 2 run 4",
            "export plan.json bert-base --for megatron": "it holds its question; leave out the graph.",
            "export plan.json --for openvino": "give a partition",
        },
    )


def test_list_of_runtimes(capsys: pytest.CaptureFixture[str]) -> None:
    """Each has a line."""
    assert mtpp("list runtimes --quiet") == 0
    assert capsys.readouterr().out.split() == list(RUNTIMES)


def test_bad_input_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong, and what to do."""
    assert mtpp(f"partition {GPT2} --method kahn --out free.json --quiet") == 0
    cut = {"block": [0] * 100 + [1] * 100 + [2] * 34}
    Path("inside.json").write_text(json.dumps(cut))
    Path("text.json").write_text("[]")
    dims = "--dim phase=decode --dim batch=32"
    assert_misuse(
        capsys,
        {
            "export free.json --for vlm": "did you mean vllm?",
            "export inside.json --for vllm": "name that: mtpp export inside.json GRAPH",
            "export free.json bert-base --for vllm": "free.json: it holds its question",
            f"export inside.json gpt2 {dims} --for vllm": "runtimes cut between layers alone",
            "export text.json --for vllm": "expected an object",
            "partition resnet50 -k 2 --for vllm": "stacks of layers",
            "partition gpt2 -k 13 --for vllm": "each stage of vllm has one or more of 12 layers; give a smaller k",
            "certify gpt2 -k 2 --for vlm": "did you mean vllm?",
            "serve gpt2 -k 13 --memory 1GB": "-k 13: each stage of vllm has one or more of 12 layers; give a smaller k",
            "serve llama-2-7b -k 2 --memory 80GB --dim context=4097": "the network knows 4096 positions; give at most",
            "flow llama-2-7b --devices 2xA100 --dim context=4097": "the network knows 4096 positions; give at most",
            "serve gpt2 -k 2,4 --memory 1GB": "give one number of stages",
            "serve bert-base -k 2 --memory 1GB": "no cache",
            "serve gpt2 -k 2 --memory 1GB --first speed": "--first speed: give one of bottleneck, capacity",
            "serve gpt2 -k 2 --memory 1GB --in-flight 3": "2 stages work at 2 batches; give 1 to 2",
            "serve gpt2 -k 2 --memory 1GB --in-flight 0": "in-flight 0",
            "serve gpt2 -k 2 --memory 1GB --in-flight 2 --for llama-cpp": "llama-cpp has one batch in flight",
        },
    )


def test_a_speed_stands_beside_a_context_that_the_model_takes(capsys: pytest.CaptureFixture[str]) -> None:
    """There is room for 25,294 tokens, and the model takes 4,096: a speed at 25,294 would be that of no model."""
    assert mtpp("serve llama-2-7b -k 2 --memory 40GB --quiet") == 0
    row = dict(zip(*(re.split(" {2,}", line) for line in capsys.readouterr().out.splitlines()[:2]), strict=True))
    assert row["context"] == "4096"
    assert row["tokens"] == "50588"
    assert mtpp("serve llama-2-7b -k 2 --memory 40GB --dim context=4096 --quiet") == 0
    there = dict(zip(*(re.split(" {2,}", line) for line in capsys.readouterr().out.splitlines()[:2]), strict=True))
    assert row["there [1/s]"] == there["throughput at 4096 [1/s]"] == there["there [1/s]"]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("llama-2-7b", "-k 8 --memory 6.4GB --dim batch=4 --dim phase=prefill --dim sequence=64"),
        ("mixtral-8x7b", "-k 5 --memory 32GB --dim batch=32 --in-flight 2"),
    ],
)
def test_bug_a_context_that_was_printed_had_no_cut(model: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Kernels of attention keep no scores, so that what a stage holds beside its caches does not grow with them."""

    def rows(context: str) -> list[list[str]]:
        assert mtpp(f"serve {model} {words} --dim element_bytes=2 --dim context={context} --quiet") == 0
        lines = capsys.readouterr().out.splitlines()
        return [re.split(" {2,}", line) for line in lines[1 : lines.index("")]]

    for _, _, _, context, there, _ in rows("128"):
        _, _, throughput, most, again, _ = rows(context)[0]
        assert int(most) >= int(context)
        assert float(throughput) >= float(there)
        assert again != "–"


def test_a_context_whose_activations_have_no_room_has_no_speed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys and values that are made anew of latent ones grow with the context, and a capacity is that of the caches."""
    sizes = {"vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 32}
    latent = {"kv_lora_rank": 4, "qk_rope_head_dim": 4, "qk_nope_head_dim": 64, "v_head_dim": 64, "q_lora_rank": 8}
    file = written(tmp_path, {"model_type": "youtu", "intermediate_size": 64, **sizes, **latent})
    assert mtpp(f"serve {file} -k 2 --memory 40MB --quiet") == 0
    header = capsys.readouterr().out.splitlines()[0]
    assert "there" not in header


def test_settings_hold_no_more_tokens_than_the_model_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Though there is room for more, and `mtpp verify` finds the same number; what vLLM keeps is said."""
    monkeypatch.chdir(tmp_path)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4}
    longest = {"model_type": "llama", "vocab_size": 100, "max_position_embeddings": 512}
    Path("config.json").write_text(json.dumps(sizes | longest))
    for devices in ("2xL4", "1xA100,1xL4"):
        assert mtpp(f"serve config.json --devices {devices} --out front.json") == 0
        out = capsys.readouterr().out
        assert out.count(" --max-model-len 512\n") == 1
        assert "all memory of each device, of which vLLM takes 90 % by default" in out
        assert mtpp("verify front.json") == 0
        front = read("front.json").answer
        assert isinstance(front, Front)
        assert front.measures["context"] == "512 tokens"
        assert list(plot_front(front.points * 2).lines[1].get_ydata()) == [512]
        assert "values at a context of 512 tokens" in report("front.json")
    text = Path("front.json").read_text().replace("--max-model-len 512", "--max-model-len 513")
    Path("front.json").write_text(text)
    assert mtpp("verify front.json") == 1


def test_bug_cuts_of_one_context_looked_alike() -> None:
    """Python showed the context that the model takes of each, the time of the fastest cut beside the context of the
    chosen one, and nothing of the question."""
    result = serve("gpt2", devices="2xL4", first="capacity")
    front = result.answer
    assert isinstance(front, Front)
    assert {point.usable_context for point in front.points} == {1024}
    fastest, chosen = figures(front.cost, "s"), figures(front.chosen.cost, "s")
    for shown in (front, result):
        assert f"time a batch {fastest}, runtime vllm, batches in flight 2, " in repr(shown)
        assert f", time a batch of the chosen cut {chosen}, context 1024 tokens" in repr(shown)
    for point in front.points:
        assert f"<td>1024</td><td>{figures(point.capacity)}</td>" in front._repr_html_()
    facts = "layers 14, stages 2, batch 1, batches in flight 2, context 128 tokens"
    assert repr(result.instance) == f"<ServingInstance 'gpt2, k = 2': {facts}>"
    assert result.notes[-1] in result._repr_html_()


def test_architectures_take_as_many_tokens_as_their_papers_say(capsys: pytest.CaptureFixture[str]) -> None:
    """GPT-2 was trained for 1,024 tokens, however many have room."""
    assert mtpp("serve gpt2 --devices 2xH100") == 0
    out = capsys.readouterr().out
    assert "and the model takes 1024 tokens." in out
    assert out.count(" --max-model-len 1024\n") == 1


@pytest.mark.parametrize("devices", ["14xT4", "8xT4,6xL4", "2xT4"])
def test_bug_more_devices_than_layers_and_works_of_equal_ones(
    devices: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stage has a layer; fronts on equal devices were held against the works of the default one."""
    file, words = tmp_path / "front.json", f"--dim batch=1 --devices {devices}"
    assert mtpp(f"serve gpt2 {words} --out {file}") == 0
    assert mtpp(f"verify {file} --graph gpt2 {words}") == 0
    assert mtpp(f"verify {file} --graph gpt2 --dim batch=1 --devices 14xA100") == 1
    assert "you ask for" in capsys.readouterr().err
