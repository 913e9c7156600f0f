"""Defaults that matter are said: a word that changes the question and was left out is named, and no other."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from command_line import PATH

import mtpp
from instances.errors import assuming, sentence
from mtpp.cli.main import main
from mtpp.questions.grid import grid_question
from mtpp.questions.partitioning import PartitioningWords, instances_of
from mtpp.questions.placement import ClusterWords, PlacementWords, flow_instance, placement_instance
from mtpp.questions.planning import PlanningWords, PlanSearchWords, TrainingWords, plan_question
from mtpp.questions.serving import ServingWords, serving_instance
from mtpp.questions.words import checked, words_of

# Flags that are not set, restrictions that nobody gives, and what a search chooses are no assumptions; nor is what
# belongs to other sources than these, or says another one's part in another way.
_FLAGS = {"fit", "training", "colour_classes", "recompute", "full_duplex", "observe"}
_RESTRICTIONS = {"constraints", "activation_buffer", "devices", "samples", "fix", "calibration"}
_CHOSEN = {"tp", "cp", "ep", "micro_batch", "checkpoint", "price", "first", "tokens", "top"}
_OF_OTHER_SOURCES = {"reader", "cost", "weights", "input_work", "time_unit", "communication", "args", "kwargs"}
_NO_ASSUMPTIONS = _FLAGS | _RESTRICTIONS | _CHOSEN | _OF_OTHER_SOURCES | {"parameter_copies", "global_batch", "dims"}
#: Of a runtime that nobody names there is no restriction but in serving; and kinds have rates of their own, which the
#: hash of a question does not know.
_IRRELEVANT = {(case, "runtime") for case in ("partition", "partition over kinds", "plan")}
_IRRELEVANT |= {("partition over kinds", "bandwidth")}
# What follows from another word: rates from a device, tokens of a step from the phase, tokens of a sample from dims.
_IRRELEVANT |= {("train", "peak_flops"), ("train", "memory_bandwidth"), ("plan", "sequence")}
_IRRELEVANT |= {("train", word) for word in ("etp", "imbalance", "dispatch")}  # no experts
_IRRELEVANT |= {(case, "dims.sequence") for case in ("flow", "serve")}
_OTHERS = {
    "etp": "1",
    "imbalance": 2.0,
    "dispatch": "copies",
    "overlap": "tp",
    "bandwidth": "1GB/s",
    "memory": "100GB",
    "level": "layer",
    "peak_flops": "7GFLOP/s",
    "memory_bandwidth": "1TB/s",
    "network": "paper",
    "nic": "half",
    "dtype": "fp16",
    "optimizer_bytes": 20.0,
    "sequence": 64,
    "device": "H100-80",
    "zero": "0",
    "attention": "eager",
    "runtime": "megatron",
    "in_flight": 2,
    "dims.batch": 2,
    "dims.sequence": 64,
    "dims.element_bytes": 1,
    "dims.context": 999,
    "dims.phase": "prefill",
}
Asked = Callable[[Any], Any]


def _plans(words: Any) -> Any:
    return plan_question("gpt2", "2x2", 4, words, "improved", checked(PlanSearchWords, {})).instance


#: What makes a question of words, their kind, and those that are given.
CASES: dict[str, tuple[Asked, Any, Mapping[str, Any]]] = {
    "partition": (lambda words: instances_of("gpt2", 2, words)[0], PartitioningWords, {}),
    "partition over kinds": (
        lambda words: instances_of("gpt2", 2, words)[0],
        PartitioningWords,
        {"devices": "1xA100,1xL4"},
    ),
    "plan": (_plans, PlanningWords, {"bandwidth": "9GB/s"}),
    "train": (
        lambda words: grid_question("gpt2", "2x2", words).instance,
        TrainingWords,
        {"bandwidth": "300GB/s,40GB/s", "global_batch": 8},
    ),
    "place": (lambda words: placement_instance("gpt2", 2, words), PlacementWords, {}),
    "flow": (lambda words: flow_instance("llama-3-8b", words), ClusterWords, {"devices": "2xL4"}),
    "serve": (lambda words: serving_instance("llama-3-8b", 4, "24GB", words), ServingWords, {}),
}


def _asked(case: str, own: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """The hash of a question, and what is assumed of it."""
    ask, kind, base = CASES[case]
    given = base | own
    dims = {name.removeprefix("dims."): value for name, value in given.items() if name.startswith("dims.")}
    words = checked(
        kind, {name: value for name, value in given.items() if "." not in name} | ({"dims": dims} if dims else {})
    )
    with assuming(words_of(kind).keys() - given.keys()) as assumed:
        return ask(words).question_hash, dict(assumed)


@pytest.mark.filterwarnings("ignore:.* changes nothing")  # it is tried where kinds have their own, or no experts are
@pytest.mark.parametrize("case", CASES)
def test_words_that_change_the_question_and_are_left_out_are_named(case: str) -> None:
    plain, assumed = _asked(case, {})
    own = words_of(CASES[case][1]).keys()
    assert own <= _OTHERS.keys() | _NO_ASSUMPTIONS
    own -= CASES[case][2].keys()
    for name, value in _OTHERS.items():
        if name.partition(".")[0] not in own:
            assert name not in assumed
            continue
        try:
            other, still = _asked(case, {name: value})
        except mtpp.InputError:
            assert name not in assumed, name
            continue
        assert name not in still
        assert (name in assumed) == (other != plain and (case, name) not in _IRRELEVANT), name
    assert assumed.keys() - {"devices.rates"} <= _OTHERS.keys()  # what a kind has by its name


def test_a_default_is_said_with_its_unit_and_what_changes_it() -> None:
    _, assumed = _asked("serve", {"dims.batch": 8, "peak_flops": "312TFLOP/s"})
    assert sentence(assumed) == (
        "Assumed: cuts that vllm can express, phase decode, 1.5 TB/s to their memory, numbers of 4 bytes, 128 "
        "tokens of context, 64 GB/s between devices, 4 batches in flight; dims phase=…, element_bytes=…, context=…, "
        "runtime, memory_bandwidth, bandwidth, in_flight change it"
    )


def test_bug_a_speed_is_said_with_the_context_that_it_is_priced_at(capsys: pytest.CaptureFixture[str]) -> None:
    """`mtpp serve` printed the speed at 128 tokens beside a context of 17,014."""
    assert main(["serve", "llama-3-8b", "-k", "4", "--memory", "24GB", "--dim", "batch=32"]) == 0
    said = capsys.readouterr().out
    assert (
        "times: 128 tokens of context, devices of 100 TFLOP/s, 1.5 TB/s to their memory, numbers of 4 bytes; "
        "contexts: 4 batches of 32 sequences in flight."
    ) in said
    assert "--dim phase=…, element_bytes=…, context=…, --for," in said


@pytest.mark.parametrize(
    "command",
    [
        "serve llama-2-7b --devices 2xL4 --dim element_bytes=2",
        "certify gpt2 --devices 1xA100,1xL4@1GB/s --level layer --time-limit 1",
        "place gpt2 --devices 1xL4,1xT4 --time-limit 1",
        "flow llama-2-7b --devices 2xL4 --dim element_bytes=2 --time-limit 1",
    ],
)
def test_bug_what_devices_do_that_are_known_by_name_was_not_said(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Peaks of data sheets counted for numbers of any width, and the rate of the slot within a server, too."""
    assert main(command.split()) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "full rates for numbers of any width, those to others also within servers (" in said
    assert "L4: 121 TFLOP/s, 300 GB/s to 24 GB, 25 GB/s to others" in said
    assert "--devices" in said.partition("Assumed: ")[2].partition(" change it.")[0].rpartition("; ")[2]


def test_devices_of_a_file_state_their_rates(tmp_path: Path) -> None:
    kind = {"name": "L4", "count": 2, "peak_flops": 1e14, "memory_bandwidth": 1e12, "memory": 24e9}
    file = tmp_path / "devices.json"
    file.write_text(json.dumps({"format": "mtpp-devices/2", "kinds": [kind]}))
    assert not any(
        "full rates" in note for note in mtpp.partition("gpt2", method="kahn", devices=file, level="layer").notes
    )


def test_bug_two_speeds_of_one_decoder_did_not_say_why_they_differ(capsys: pytest.CaptureFixture[str]) -> None:
    """Devices in a row work at full rates, servers at the part of them that measured runs reached."""
    assert main(["serve", "llama-2-7b", "--devices", "4xL4", "--dim", "element_bytes=2"]) == 0
    assert "times are at full rates of devices, which runs do not reach; those of" in capsys.readouterr().out
    assert main(["serve", "llama-2-7b", "--servers", "1x4xL4"]) == 0
    said = capsys.readouterr().out
    assert "at parts of full rates that were fitted to runs of TensorRT-LLM: 64.8% of products and 71.2% of" in said
    assert "weights of 2 bytes, caches of 2 bytes; --input, --output, --weights, --kv change it." in said


def test_bug_a_flow_of_prompts_did_not_say_that_it_leaves_out_embeddings_and_head() -> None:
    """In decoding it did."""
    result = mtpp.flow("llama-2-7b", devices="2xA100", dims={"phase": "prefill", "element_bytes": 2}, time_limit=1)
    assert "layers without embeddings and head, capacities without the caches of waiting sequences" in result.notes


@pytest.mark.parametrize(("device", "dtype"), [("V100", "fp16"), ("T4", "fp16"), ("TPU-v5e", "bf16"), ("A100", "bf16")])
def test_bug_numbers_of_a_training_were_bf16_on_devices_without(device: str, dtype: str) -> None:
    """Devices have one type of 16 bits alone, or both; the other one is refused."""
    words = {"bandwidth": "30GB/s", "global_batch": 8, "device": device}
    with assuming(words_of(TrainingWords).keys() - words.keys()) as assumed:
        question = grid_question("gpt2", "1x2", checked(TrainingWords, words))
    assert question.instance.chains[0].dtype == dtype
    assert assumed["dtype"] == f"numbers in {dtype}"


def test_what_is_given_is_not_assumed_and_files_and_pages_say_the_rest(tmp_path: Path) -> None:
    dims = {"batch": 1, "sequence": 8, "element_bytes": 2}
    rest: dict[str, Any] = {"level": "layer", "memory": "1GB", "bandwidth": "1GB/s", "peak_flops": "1TFLOP/s"}
    result = mtpp.certify("bert-base", 2, dims=dims, **rest)
    assert result.notes == ("Assumed: 1.5 TB/s to their memory; memory_bandwidth changes it",)
    assert mtpp.certify("bert-base", 2, dims=dims, memory_bandwidth="1TB/s", **rest).notes == ()
    file = result.save(tmp_path / "certificate.json")
    assert mtpp.read(file).notes == result.notes
    assert "1.5 TB/s to their memory" in mtpp.report(file)
    file = mtpp.partition("bert-base", 2, dims=dims, **rest).save(tmp_path / "partition.json")
    assert mtpp.read(file).notes == result.notes


def test_explain_says_what_a_partition_by_hand_is_priced_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Below its result line, and in JSON; of a file with its question what that rested on."""
    (tmp_path / "hand.json").write_text('{"stages": [["0", "1"], ["2"]]}')
    (tmp_path / "graph.json").write_text(json.dumps(PATH))
    hand = f"{tmp_path}/hand.json {tmp_path}/graph.json --time-limit 1"
    assert main(f"explain {hand}".split()) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("Assumed: "))
    defaults, _, words = line.removeprefix("Assumed: ").partition("; ")
    assert set(defaults.split(", ")) == {"no limit on memory", "25 GB/s between devices"}
    assert {"--memory", "--bandwidth"} <= set(words.replace(",", "").split())
    assert main(f"explain {hand} --bandwidth 1 --memory 1GB --json".split()) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == []
    file = mtpp.partition(tmp_path / "graph.json", 2, "kahn", memory="1GB").save(tmp_path / "p.json")
    assert main(["explain", str(file), "--json"]) == 0
    (note,) = json.loads(capsys.readouterr().out)["notes"]
    assert note.startswith("Assumed: 25 GB/s between devices; ")


def test_a_decoder_whose_caches_are_those_of_one_batch_says_so() -> None:
    """A full pipeline of k stages has a batch in each, whose caches all stages hold."""
    dims = {"phase": "decode", "batch": 2}
    result = mtpp.certify("gpt2", k=2, level="layer", dims=dims, memory="8GB", time_limit=5)
    assert any("needs up to 2 batches in flight" in note for note in result.notes)
    alone = mtpp.certify("gpt2", k=2, level="layer", dims=dims, time_limit=5)
    assert not any("in flight" in note for note in alone.notes)
