"""The verb plan for a global batch: what it prints, writes, exports, draws and refuses."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from random import Random

import pytest
from command_line import mtpp
from runtime_readers import megatron
from transformers_configurations import random_sizes

import mtpp as python
from instances import InputError, InputWarning
from instances.json_files import write_json
from instances.planning.grid.configurations import chain_document
from tests.helpers.grid_cases import equal_chain

SMALL = "train gpt2 --cluster 1x4 --bandwidth 300GB/s --global-batch 8 --micro-batch 1 --sequence 256"


def test_a_plan_says_what_it_rests_on_and_is_verified(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp(f"{SMALL} --price 2 --out plan.json --plot plan.png") == 0
    out = capsys.readouterr().out
    for words in ("124,439,808 parameters", "bf16, sequence 256", "ZeRO 1", "tokens/s", "(MFU)", "10^6 tokens", "gap"):
        assert words in out
    for column in ("state [GiB]", "stored [GiB]", "recompute", "uniform"):
        assert column in out
    assert Path("plan.png").stat().st_size > 10_000
    assert mtpp("verify plan.json") == 0
    document = json.loads(Path("plan.json").read_text())
    assert document["format"] == "mtpp-answer/1"
    assert [rank["rank"] for rank in document["answer"]["ranks"]] == list(range(4))
    assert f"{8 * 256 / document['cost']:,.0f} tokens/s" in out
    assert python.read("plan.json").cost == document["cost"]
    assert mtpp("verify plan.json --cluster 1x4 --global-batch 8 --sequence 256 --dtype bf16") == 0
    capsys.readouterr()
    others = {"cluster 2x2": "1x4", "global-batch 16": 8, "sequence 512": 256, "dtype fp32": "bf16"}
    for other, true in others.items():
        assert mtpp(f"verify plan.json --{other}") == 1
        assert f"is {true}, you ask for {other.split()[1]}" in capsys.readouterr().err
    document["cost"] *= 0.9
    Path("plan.json").write_text(json.dumps(document))
    assert mtpp("verify plan.json") == 1


def test_what_a_plan_may_choose_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The bound holds for these plans alone; a page says it, too."""
    assert mtpp(f"{SMALL} --fix pp=1,cp=2 --zero 1,3 --out plan.json") == 0
    allowed = "any dp, v; pp 1; tp 1, 2; cp 2; ZeRO 1, 3; recompute none, act, full"
    assert f"allowed  {allowed}\n" in capsys.readouterr().out
    assert allowed in python.report("plan.json")
    question = python.train("gpt2", "1x4", bandwidth="300GB/s", global_batch=8, sequence=256).instance
    assert question.allowed == "any pp, dp, v; tp 1, 2, 4; ZeRO 1; recompute none, act, full"


def test_recomputation_counts_as_use_of_the_hardware_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """About a third more where all forward passes run twice, nothing where none does."""
    rates = {}
    for way in ("full", "none"):
        assert mtpp(f"{SMALL} --fix pp=4,tp=1 --checkpoint {way}") == 0
        (numbers,) = re.findall(
            r"^use +(.*)% of .* about (.*)% with recomputation", capsys.readouterr().out, re.MULTILINE
        )
        useful, hardware = map(float, numbers)
        rates[way] = hardware / useful
    assert rates["none"] == 1
    assert 1.25 < rates["full"] < 1.4


def test_python_takes_the_same_words(folder: Path) -> None:
    """Degrees are numbers, or texts with several."""
    words = {"bandwidth": "300GB/s", "micro_batch": 1, "zero": 1, "tp": "1,2", "sequence": 256}
    result = python.train("gpt2", "1x4", global_batch=8, **words)
    assert result.answer is not None
    assert result.bound is not None
    assert result.bound.value <= result.answer.time
    refused = (("tp", 3, "it does not divide 4"), ("zero", 7, "from 0 to 3"), ("ep", True, "a number"))
    for name, value, message in refused:
        with pytest.raises(InputError, match=f"^{name}=.*{message}"):
            python.train("gpt2", "1x4", global_batch=8, **words | {name: value})


def test_bug_fixed_degrees_that_nothing_has_are_named() -> None:
    """Other context degrees were ignored, and memory was blamed for microbatches that no turns can divide."""
    words = {"bandwidth": "300GB/s", "sequence": 256}
    with pytest.raises(InputError, match=r"^fix='cp=4': cp has other degrees; leave one of both out\.$"):
        python.train("gpt2", "1x4", global_batch=8, cp=2, fix="cp=4", **words)
    with pytest.raises(InputError, match="stages in turns need a multiple of pp as microbatches"):
        python.train("gpt2", "1x4", global_batch=9, fix="pp=2,v=2", **words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--fix tp=2 --tp 1", "--fix tp=2: --tp has other degrees; leave one of both out."),
        ("--cp 3", "--cp 3: it does not divide 256, the tokens of a sample."),
        ("--fix cp=3", "--fix cp=3: it does not divide 256, the tokens of a sample."),
        ("--memory 1MB", "--memory 1MB: that is 1 MB; give from 1 GB to 4 TB."),
    ],
)
def test_bug_refused_degrees_did_not_name_their_option(
    words: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mtpp(f"train gpt2 --cluster 1x4 --bandwidth 300GB/s --global-batch 8 --sequence 256 {words}") == 2
    assert capsys.readouterr().err == f"mtpp: {message}\n"


def test_bug_options_of_experts_were_passed_over_without_experts(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mtpp(f"{SMALL} --imbalance 2 --etp tp --checkpoint full:1") == 0
    shown = capsys.readouterr()
    assert "--etp changes nothing: gpt2 has no experts." in shown.err
    assert "--imbalance changes nothing: gpt2 has no experts." in shown.err
    assert "--dispatch" not in shown.err
    assert "recompute full in the first layer of a stage\n" in shown.out


def test_bug_chains_of_configurations_without_a_global_batch_are_refused() -> None:
    with pytest.raises(InputError, match=r"A graph is .* no ConfiguredChain"):
        python.plan(equal_chain(4), "1x4", 4, bandwidth="300GB/s")  # type: ignore[call-overload]


def test_megatron_gets_all_degrees(folder: Path) -> None:
    command = f"{SMALL} --fix pp=2,tp=2,v=1 --memory 1GB --checkpoint full --for megatron --export run.sh"
    assert mtpp(f"{command} --out plan.json") == 0
    text = Path("run.sh").read_text()
    document = json.loads(Path("plan.json").read_text())
    options = dict(line.removeprefix("--").split(" ", 1) for line in text.splitlines() if line.count(" ") == 1)
    assert options["tensor-model-parallel-size"] == "2"
    assert options["micro-batch-size"] == "1"
    assert options["global-batch-size"] == "8"
    assert "--sequence-parallel" in text
    assert "--use-distributed-optimizer" in text
    layout = re.search(r'--pipeline-model-parallel-layout ".*"', text)
    assert layout is not None
    stages = megatron(f"--pipeline-model-parallel-size 2 {layout[0]}\n", 12, 2)
    cut = document["answer"]["cuts"][1]
    assert stages == [0] * cut + [1] * (14 - cut)


def test_torchtitan_gets_a_file_of_toml(folder: Path) -> None:
    assert mtpp(f"{SMALL} --fix pp=2,tp=1,dp=2 --for torchtitan --export run.toml --out plan.json") == 0
    settings = tomllib.loads(Path("run.toml").read_text())
    document = json.loads(Path("plan.json").read_text())
    parallel = settings["parallelism"]
    assert parallel["tensor_parallel_degree"] == 1
    assert parallel["pipeline_parallel_degree"] == 2
    assert parallel["data_parallel_shard_degree"] * parallel["data_parallel_replicate_degree"] == 2
    parts = parallel["module_fqns_per_model_part"]
    assert [name for part in parts for name in part if name.startswith("layers")] == [f"layers.{i}" for i in range(12)]
    assert len(parts) == len(document["answer"]["cuts"]) - 1
    assert settings["training"]["local_batch_size"] * 2 == settings["training"]["global_batch_size"] == 8
    assert settings["activation_checkpoint"]["mode"] == "none"


@pytest.mark.parametrize(
    ("runtime", "words"), [("megatron", "--fix pp=2,tp=2"), ("torchtitan", "--fix pp=2,tp=1,dp=2")]
)
def test_a_plan_file_is_exported_as_the_plan_was(
    folder: Path, capsys: pytest.CaptureFixture[str], runtime: str, words: str
) -> None:
    assert mtpp(f"{SMALL} {words} --for {runtime} --export run.sh --out plan.json") == 0
    assert mtpp(f"export plan.json --for {runtime} --out again.sh") == 0
    settings = Path("run.sh").read_text()
    assert Path("again.sh").read_text().endswith(settings)
    assert Path("again.sh.certificate.json").read_bytes() == Path("plan.json").read_bytes()
    assert python.export(python.read("plan.json"), runtime) == settings
    capsys.readouterr()
    assert mtpp("export plan.json --for vllm") == 2
    assert "vllm trains no plans for a global batch" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["deepseek_v3", "gemma3_text"])
def test_runtimes_cut_layers_that_differ(folder: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    """Their arguments count whole layers; measured layers that differ have to be named as such."""
    sizes = {**random_sizes(kind, Random(kind)), "num_hidden_layers": 6, "first_k_dense_replace": 1}
    sizes |= {"sliding_window": 4, "sliding_window_pattern": 2, "layer_types": None}
    (folder / "config.json").write_text(json.dumps({"model_type": kind, **sizes}))
    words = "--cluster 1x2 --bandwidth 300GB/s --global-batch 4 --sequence 32 --fix pp=2,tp=1,v=1"
    assert mtpp(f"train config.json {words} --for megatron --export run.sh --out plan.json") == 0
    document = json.loads(Path("plan.json").read_text())
    assert len(document["question"]["chains"][0]["kinds"]) > 3
    layout = re.search(r'--pipeline-model-parallel-layout ".*"', Path("run.sh").read_text())
    assert layout is not None
    cut = document["answer"]["cuts"][1]
    assert megatron(f"--pipeline-model-parallel-size 2 {layout[0]}\n", 6, 2) == [0] * cut + [1] * (8 - cut)
    assert mtpp("export plan.json --for torchtitan --out run.toml") == 0
    parts = tomllib.loads(Path("run.toml").read_text())["parallelism"]["module_fqns_per_model_part"]
    assert [len(part) for part in parts] == [cut, 9 - cut]  # behind the layers there are norm and output
    chain = document["question"]["chains"][0]
    chain["layers"][2]["name"] = "attention"
    write_json(folder / "chain.json", chain)
    capsys.readouterr()
    assert mtpp(f"train chain.json {words.replace('--sequence 32', '')} --for megatron --export again.sh") == 2
    assert "layers that differ have to be named embedding, layer.0 and on, and head" in capsys.readouterr().err


def test_measured_layers_come_from_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(folder / "chain.json", chain_document(equal_chain(4)))
    assert mtpp("train chain.json --cluster 1x4 --bandwidth 1GB/s --global-batch 4 --memory 1MB --out plan.json") == 0
    assert mtpp("verify plan.json") == 0
    document = json.loads(Path("chain.json").read_text())
    document["kinds"]["layer"] = document["kinds"]["layer"][1:]
    Path("chain.json").write_text(json.dumps(document))
    capsys.readouterr()
    assert mtpp("train chain.json --cluster 1x4 --bandwidth 1GB/s --global-batch 4") == 2
    assert "has none that recomputes nothing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--global-batch 8 --micro-batch 3", "--micro-batch 3: it does not divide 8, the samples of a step"),
        ("--global-batch 7 --fix dp=2", "has no whole microbatches"),
        ("--global-batch 8 --tp 3", "--tp 3: it does not divide 4, the devices of a server"),
        ("--global-batch 8 --fix tp=8", "The fixed degrees need 8 devices, and there are 4"),
        ("--global-batch 8 --fix pp=4,dp=4", "The fixed degrees need 16 devices, and there are 4"),
        ("--global-batch 8 --fix pp=99", "devices"),
        ("--global-batch 8 --fix pp=1,v=2", "stages in turns need two groups of devices"),
        ("--global-batch 8 --fix depth=2", "give each of pp, tp, dp, v, cp, ep at most once"),
        ("--global-batch 8 --fix pp=0", "with a whole number from 1, such as pp=8,tp=4"),
        ("--global-batch 8 --ep 2", "--ep 2: it does not divide 1, as gpt2 has no experts."),
        ("--global-batch 8 --zero 4", "--zero 4: give stages from 0 to 3, or auto"),
        ("--global-batch 8 --device T5000", "There is no device 'T5000'"),
        ("--global-batch 8 --sequence 0", "--sequence 0: it must be at least 1"),
        ("--global-batch 8 --sequence 4096", "gpt2 knows 1024 positions"),
        ("--global-batch 8 --dtype fp8", "A100-80 has no products of 8-bit numbers; use bf16 or fp16"),
        ("--global-batch 8 --checkpoint some", "give one of none, act, core, half, full, auto"),
        ("--global-batch 8 --export run.sh", "say with --for which runtime"),
        ("", "--global-batch is missing; give the samples of a step"),
    ],
)
def test_bad_words_are_one_line(folder: Path, capsys: pytest.CaptureFixture[str], words: str, message: str) -> None:
    assert mtpp(f"train gpt2 --cluster 1x4 --bandwidth 300GB/s {words}") == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_plan_names_the_microbatches_that_are_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp("plan gpt2 --cluster 1x2 --bandwidth 300GB/s --sequence 32") == 2
    assert "--microbatches is missing" in capsys.readouterr().err


def test_bug_what_nothing_fits_into_was_called_bad_input(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The smallest layer is a proof, as of other verbs; an even share of all of them is none."""
    llama = "train llama-3-8b --cluster 1x4 --bandwidth 300GB/s --global-batch 8"
    for memory, code, message in (
        ("1GB", 5, "nothing fits into 1 GB a device: layer head alone needs 1."),
        ("8GB", 1, "each layer fits alone, but all of them, divided evenly, need"),
    ):
        assert mtpp(f"{llama} --memory {memory} --quiet") == code  # without a line of progress on a busy machine
        err = capsys.readouterr().err
        assert message in err
        assert len(err.strip().splitlines()) == 1


def test_one_of_a_thing_is_no_plural(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = "train gpt2 --cluster 1x1 --bandwidth 1GB/s --global-batch 1 --sequence 64"
    assert mtpp(command) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "1 microbatch of 1, 1 device" in out
    assert "s, 1 sample, " in out


def test_unknown_models_and_unequal_servers_are_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("net.onnx").write_bytes(b"\x08\x07\xff")
    for command, message in (
        ("train resnet50 --cluster 1x4 --bandwidth 1GB/s --global-batch 8", "no costs are known of its layers; give"),
        ("train nosuch --cluster 1x4 --bandwidth 1GB/s --global-batch 8", "no such model with configurations"),
        ("train net.onnx --cluster 1x4 --bandwidth 1GB/s --global-batch 8", "net.onnx: no costs are known of its"),
        ("train no.onnx --cluster 1x4 --bandwidth 1GB/s --global-batch 8", "no such model with configurations"),
        ("train gpt2 --cluster 1x4+1x2 --bandwidth 1GB/s --global-batch 8", "needs equal servers such as 8x8"),
        ("train gpt2 --cluster 1x4xA100 --global-batch 8", "--cluster 1x4, --device A100"),
        ("train gpt2 --cluster 2x4 --global-batch 8", "give --bandwidth within and between servers"),
        ("train gpt2 --cluster 1x4 --global-batch 8", "give --bandwidth within the server, such as 300GB/s."),
    ):
        assert mtpp(command) == 2
        err = capsys.readouterr().err
        assert message in err
        assert len(err.strip().splitlines()) == 1


def test_bug_more_servers_gave_a_slower_plan() -> None:
    """Where links between servers are slow, plans of all of them took longer than the best plan of one."""
    words = {"bandwidth": "100GB/s,50GB/s", "global_batch": 96, "device": "H100-80", "sequence": 512}
    alone, both = (python.train("gpt2", f"{count}x8", **words) for count in (1, 2))
    assert alone.cost is not None
    assert both.cost is not None
    assert both.cost <= alone.cost * (1 + 1e-12)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("1x8 --bandwidth 900", "--bandwidth 900: 900 bytes a second; write 900GB/s."),
        ("1x8 --bandwidth 100MB/s", "that is 100 MB/s within a server; give from 1 GB/s to 10 TB/s."),
        ("2x8 --bandwidth 300GB/s,1MB/s", "of a device to other servers; give from 10 MB/s to 300 GB/s."),
        ("1x8 --bandwidth 300GB/s --memory 80MB", "that is 80 MB; give from 1 GB to 4 TB."),
        ("1x8 --bandwidth 300GB/s --device H10", "There are H100-80, H100-96, H100-PCIe"),
        ("2xDGX-H10", "There is no server 'DGX-H10'; did you mean DGX-H100?"),
        ("1xDGX-A100 --dtype fp8", "--dtype fp8: A100-80 has no products of 8-bit numbers; use bf16 or fp16."),
        (
            "1x8 --bandwidth 300GB/s --device V100 --dtype bf16",
            "--dtype bf16: V100-32 has no products of bf16; use fp16.",
        ),
        (
            "1x8 --bandwidth 300GB/s --device T4 --dtype fp8",
            "--dtype fp8: T4 has no products of 8-bit numbers; use fp16.",
        ),
        ("1xDGX-H100 --imbalance 0.5", "--imbalance"),
        ("1xDGX-H100 --calibration nosuch.json", "nosuch.json"),
    ],
)
def test_units_and_names_that_cannot_be_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], words: str, message: str
) -> None:
    assert mtpp(f"train gpt2 --global-batch 8 --cluster {words}") == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_bug_a_device_of_a_file_could_not_lack_bf16(folder: Path) -> None:
    device = {"format": "mtpp-device/1", "name": "mine", "peak_flops": 4e14, "memory_bandwidth": 2e12, "memory": 6e10}
    Path("mine.json").write_text(json.dumps({**device, "half": "fp16"}))
    words = {"bandwidth": "100GB/s", "global_batch": 8, "sequence": 64, "device": "mine.json", "fix": "pp=1,tp=1"}
    assert python.train("gpt2", "1x4", **words).instance.chains[0].dtype == "fp16"
    with pytest.raises(InputError, match="mine has no products of bf16; use fp16"):
        python.train("gpt2", "1x4", dtype="bf16", **words)
    Path("mine.json").write_text(json.dumps({**device, "half": "fp32"}))
    with pytest.raises(InputError, match="half of mine is 'fp32'; give one of bf16, fp16"):
        python.train("gpt2", "1x4", **words)


def test_bug_an_expert_degree_that_divides_nothing_is_named() -> None:
    words = {"global_batch": 8, "sequence": 512, "fix": "ep=8,dp=1,tp=1,pp=8"}
    with pytest.raises(InputError, match="an expert degree of 8 or more has to divide dp times cp; allow others"):
        python.train("mixtral-8x7b", "1xDGX-H100", **words)


def test_bug_a_device_that_servers_by_name_do_not_have_is_warned_of() -> None:
    """It was taken in silence."""
    with pytest.warns(InputWarning, match="the servers of cluster have H100; A100-80 counts"):
        python.train("gpt2", "1xDGX-H100", global_batch=8, sequence=64, device="A100", fix="pp=1,tp=1")


def test_large_models_are_planned_and_proved_again_across_servers(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Context groups of two servers, which 8-bit products keep busy."""
    command = "train llama-3-70b --cluster 4xDGX-H100 --global-batch 8 --sequence 16384 --micro-batch 1 --dtype fp8"
    assert mtpp(f"{command} --fix tp=8,cp=2,pp=2 --for megatron --out plan.json") == 0
    out = capsys.readouterr().out
    assert "pp 2, tp 8, cp 2, dp 1" in out
    assert "four of five steps take" in out
    assert mtpp("verify plan.json") == 0


def test_measured_steps_calibrate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = {"model": "llama-3-8b", "cluster": "1xDGX-H100", "global_batch": 128, "sequence": 8192, "micro_batch": "1"}
    step = {"seconds": 12.78, "words": {**run, "fix": "pp=1,tp=1,cp=2,dp=4", "runtime": "megatron"}}
    write_json(folder / "steps.json", {"format": "mtpp-steps/1", "steps": [step]})
    assert mtpp("train calibrate steps.json --out h100.json") == 0
    words = "--cluster 1xDGX-H100 --global-batch 128 --sequence 8192 --micro-batch 1 --fix pp=1,tp=1,cp=2,dp=4"
    times = []
    for more in ("--out before.json", "--calibration h100.json --out after.json"):
        assert mtpp(f"train llama-3-8b {words} --for megatron {more}") == 0
        times.append(json.loads(Path(more.split()[-1]).read_text())["cost"])
    assert abs(times[1] - 12.78) < abs(times[0] - 12.78)
    capsys.readouterr()
    step["words"]["fix"] = "pp=1"
    write_json(folder / "steps.json", {"format": "mtpp-steps/1", "steps": [step]})
    assert mtpp("train calibrate steps.json") == 2
    assert "fix has not all of pp, tp, cp and ep" in capsys.readouterr().err


def test_a_whole_training_and_plans_of_other_degrees_are_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mtpp(f"{SMALL} --top 2 --tokens 1e9 --price 2") == 0
    out = capsys.readouterr().out
    assert "days for 1e+09 tokens" in out
    rows = [line.split() for line in out.splitlines() if line.startswith(("planned", "alike", "slower"))]
    best, *others = (float(row[-3]) for row in rows)
    assert [row[0] for row in rows] == ["planned", *("alike" if it <= 1.08 * best else "slower" for it in others)]
    assert len(others) == 2
    number = [row[0] for row in rows].count("alike")
    assert f"{number} of 2 plans of other degrees within 8%" in out


def test_bug_a_short_training_took_no_days(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mtpp(f"{SMALL} --tokens 1e4") == 0
    (row,) = (line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("training"))
    assert float(row[1]) > 0
