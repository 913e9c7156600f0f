"""Two commands lead from a model to stages that run; what cannot be is one line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from command_line import assert_misuse, mtpp

onnx = pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")

from onnx_models import model, save  # noqa: E402
from stage_folders import altered, two_stages  # noqa: E402

#: A device on which there is something to be gained by several.
SLOW = "--peak-flops 1GFLOP/s --memory-bandwidth 1GB/s"


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model in the folder to work in."""
    monkeypatch.chdir(tmp_path)
    nodes = "a = MatMul(x, w) b = Relu(a) c = MatMul(b, w) y = Relu(c)"
    return save(tmp_path, model(f"g (float[n,64] x) => (float[n,64] y) {{ {nodes} }}", w=(64, 64)))


def test_two_commands(network: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    monkeypatch.setattr("mtpp.stages.runner._SIZES", (64, 2**18))
    assert mtpp(f"split net.onnx -k 2 --dim n=8 {SLOW} --time-limit 1 --out stages --quiet") == 0
    out = capsys.readouterr().out
    assert "2 stages in stages; run them: mtpp run stages" in out
    assert mtpp("verify stages/certificate.json") == 0
    assert mtpp("run stages --requests 20 --out run.json --trace trace.json --plot run.svg --calibrate") == 0
    out = capsys.readouterr().out
    assert "equal (4 compared)" in out
    assert "between processes: " in out
    measures = json.loads(Path("run.json").read_text())
    assert measures["outputs"].pop("allowed") > 0
    assert measures["outputs"] == {"requests": 4, "exact": 4, "worst": 0.0, "name": None}
    assert measures["link"]["bandwidth"] > 0
    assert [stage["block"] for stage in measures["stages"]] == [0, 1]
    events = json.loads(Path("trace.json").read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == 40
    assert "predicted" in Path("run.svg").read_text() or Path("run.svg").stat().st_size > 1000


def test_a_certificate_or_a_partition_says_where_to_split(network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A certificate brings its question along; of a partition, bandwidth and memory are those of its file."""
    read = f"net.onnx --dim n=8 {SLOW}"
    assert mtpp(f"certify {read} -k 2 --time-limit 1 --out certificate.json") == 0
    assert mtpp(f"partition {read} -k 2 --method local-search --out partition.json") == 0
    for file in ("certificate", "partition"):
        assert mtpp(f"split {read} --partition {file}.json --method kahn --out {file} --no-samples") == 0
        manifest = json.loads(Path(file, "manifest.json").read_text())
        blocks = json.loads(Path("partition.json").read_text())
        assert manifest["bottleneck"] == blocks["cost"]
        assert manifest["samples"] is None
        assert mtpp(f"verify {file}/certificate.json") == 0
    stated = json.loads(Path("certificate/certificate.json").read_text())
    assert stated["answer"]["block"] == json.loads(Path("certificate.json").read_text())["answer"]["block"]
    capsys.readouterr()
    save(network.parent, model("g (float[8,64] x) => (float[8,64] y) { a = Relu(x) y = Neg(a) }"), "other.onnx")
    own = "split net.onnx --dim n=8 --partition certificate.json --out other"
    assert_misuse(
        capsys,
        {
            "split other.onnx --partition certificate.json --out other": "the certificate is of another model",
            "split other.onnx --partition partition.json --out other": "the certificate is of another model",
            "split net.onnx --dim n=9 --partition certificate.json --out other": "of other dimensions",
            f"{own} --memory 1GB": "leave out what says another",
            f"{own} -k 2": "-k 2: --partition says the stages; leave one of them out.",
        },
    )
    assert not Path("other").exists()


def test_stages_for_kinds_of_devices(network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each stage names the kind of its device, as the certificate has it; here all of them run on this machine."""
    kinds = [{"name": "fast", "count": 1, "bandwidth": 1e9}, {"name": "slow", "count": 2, "speed": 0.4}]
    Path("kinds.json").write_text(json.dumps({"format": "mtpp-devices/2", "kinds": kinds}))
    read = f"net.onnx --dim n=8 {SLOW} --devices kinds.json"
    assert mtpp(f"split {read} --time-limit 2 --out stages") == 0
    manifest = json.loads(Path("stages/manifest.json").read_text())
    stated = json.loads(Path("stages/certificate.json").read_text())
    named = [name for name in stated["answer"]["kind"] if name is not None]
    assert [stage["device"] for stage in manifest["stages"]] == named
    assert set(named) == {"fast", "slow"}
    capsys.readouterr()
    assert mtpp("run stages --requests 5 --out run.json") == 0
    assert "ran on this machine" in capsys.readouterr().out
    assert [stage["device"] for stage in json.loads(Path("run.json").read_text())["stages"]] == named
    manifest["stages"][0]["device"] = "fast" if named[0] == "slow" else "slow"
    Path("stages/manifest.json").write_text(json.dumps(manifest))
    other = json.dumps({"block": [0, 0, 1, 1]})
    Path("hand.json").write_text(other)
    assert_misuse(
        capsys,
        {
            "run stages": "stages[0].device is",
            f"split {read} -k 4 --out new": "there are 3 devices",
            f"split {read} --partition stages/certificate.json --out new": "leave out what says another: --devices",
            f"split {read} --partition hand.json --out new": "hand.json does not say the kind of each stage",
            "split net.onnx --dim n=8 --peak-flops 1GFLOP/s --devices 2xA100 --out new": "kind A100 has its own",
            "split net.onnx --dim n=8 --devices 2xA100,1xT4 --cost measured --out new": "kind A100 has its own",
        },
    )
    assert mtpp("verify stages --quiet") == 1
    assert not Path("new").exists()


def test_misuse(network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("full").mkdir()
    Path("full", "file").touch()
    Path("program.pt2").touch()
    assert_misuse(
        capsys,
        {
            "split net.onnx --dim n=8 --out new": "say how many stages there are with -k",
            "split net.onnx -k 2 --out new": "dimension 'n' of input 'x' has no value",
            "split net.onnx -k 2 --dim n=8 --out full": "full: it is there and not an empty folder",
            "split net.onnx -k 2 --dim n=8 --out net.onnx": "--out net.onnx: this is a file to read",
            "split net.onnx --partition none.json --method nonsense --out new": "There is no heuristic 'nonsense'",
            "split nothing.onnx -k 2 --out new": "nothing.onnx: there is no such file",
            "split bert-base -k 2 --out new": "stages are made of an ONNX model",
            "split program.pt2 -k 2 --out new": "split a program that you trust from Python",
            "run": "give the folder of stages",
            "run nowhere": "nowhere: there is no such folder",
            "run full": "full: this is no folder that mtpp split has written",
            "run full --plot picture.txt": "--plot picture.txt",
        },
    )
    assert sorted(os.listdir()) == ["full", "net.onnx", "program.pt2"]


def test_stages_that_do_not_run(network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line names the stage, and the exit code is 1; a wrong output as well."""
    pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    folder, _ = two_stages(Path.cwd())
    stage = onnx.load(folder / "stage-1.onnx")
    next(node for node in stage.graph.node if node.op_type == "Add").op_type = "Sub"
    altered(folder, "stage-1.onnx", stage.SerializeToString())
    assert mtpp("run stages --requests 5") == 1
    out, err = capsys.readouterr()
    assert "differ" in out
    assert err == "mtpp: stages: output 'y' is not the whole model's.\n"
    stage.graph.node[0].domain = "my.own"
    altered(folder, "stage-1.onnx", stage.SerializeToString())
    assert mtpp("run stages") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("mtpp: stage 1 (stage-1.onnx): ")
    assert len(err.splitlines()) == 1


def test_an_input_may_be_an_output(network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is there before anything runs; the others are compared."""
    pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    save(network.parent, model("g (float[8] x) => (float[8] x, float[8] y) { y = Relu(x) }"), "through.onnx")
    assert mtpp("split through.onnx -k 1 --method kahn --out stages") == 0
    assert mtpp("run stages --requests 5") == 0
    assert "equal (4 compared)" in capsys.readouterr().out


def test_random_outputs_are_not_compared(network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the model gives once says nothing of what it gives next."""
    pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    nodes = "a = RandomNormalLike(x) y = Add(a, x)"
    save(network.parent, model(f"g (float[8] x) => (float[8] y) {{ {nodes} }}"), "random.onnx")
    assert mtpp("split random.onnx -k 1 --method kahn --out stages") == 0
    assert "the whole model: it gives something else each time" in capsys.readouterr().err
    assert mtpp("run stages --requests 5") == 0
    assert "not compared" in capsys.readouterr().out


def test_what_onnxruntime_lacks_can_be_split(network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is said that nothing will be compared."""
    pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    own = model("g (float[8] x) => (float[8] y) { a = Relu(x) b = my.own.Secret(a) y = Neg(b) }")
    own.graph.value_info.append(onnx.helper.make_tensor_value_info("b", 1, (8,)))
    save(network.parent, own, "own.onnx")
    assert mtpp("split own.onnx -k 2 --method kahn --out stages") == 0
    err = capsys.readouterr().err
    assert "the whole model: " in err
    assert "The outputs of the stages will not be compared" in err
    assert json.loads(Path("stages", "manifest.json").read_text())["samples"] is None


def test_export_of_a_folder_has_its_names(network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files and tensors as the manifest has them, for the runtime that takes stage files; others need the cut alone."""
    nodes = " ".join(f"h{i + 1} = MatMul(h{i}, w)" for i in range(4))
    layered = model(f"g (float[8,64] h0) => (float[8,64] h4) {{ {nodes} }}", w=(64, 64))
    for i, node in enumerate(layered.graph.node):
        node.name = f"layers.{i}"
    save(network.parent, layered, "layers.onnx")
    blocks = {"stages": [["layers.0"], ["layers.1", "layers.2", "layers.3"]]}
    Path("blocks.json").write_text(json.dumps(blocks))
    assert mtpp(f"split layers.onnx --partition blocks.json {SLOW} --method kahn --out stages --no-samples") == 0
    assert mtpp("export stages --for vllm --quiet") == 0
    assert "VLLM_PP_LAYER_PARTITION=1,3" in capsys.readouterr().out
    assert mtpp("export stages --for onnxruntime-genai --out genai_config.json") == 0
    (stages,) = json.loads(Path("genai_config.json").read_text())["model"]["decoder"]["pipeline"]
    told = [(stage["filename"], stage["inputs"], stage["outputs"]) for stage in stages.values()]
    assert told == [("stage-0.onnx", ["h0"], ["h1"]), ("stage-1.onnx", ["h1"], ["h4"])]
    assert Path("genai_config.json.certificate.json").read_bytes() == Path("stages/certificate.json").read_bytes()
    Path("stages/stage-0.onnx").write_bytes(b"")
    assert_misuse(capsys, {"export stages --for onnxruntime-genai": "the file was altered"})


def test_without_onnxruntime(
    network: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Splitting works without it; running says what to install."""
    monkeypatch.setattr("mtpp.stages.trial.find_spec", lambda name: None)
    two_stages(Path.cwd())
    assert_misuse(
        capsys,
        {"run stages": "install the extra: pip install onnx onnxruntime sympy"},
    )


def test_devices_that_stages_run_on(network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The processor by name, and one line for graphics cards that there are not, or too few or other names."""
    from onnxruntime import get_available_providers

    from mtpp.stages.stage_process import CARDS

    assert mtpp(f"split net.onnx -k 2 --dim n=8 {SLOW} --time-limit 1 --out stages --quiet") == 0
    assert mtpp("run stages --requests 20 --device cpu,cpu --out measures.json --quiet") == 0
    assert json.loads(Path("measures.json").read_text())["devices"] == ["cpu", "cpu"]
    capsys.readouterr()
    refusals = {
        "run stages --device cuda:0": "give cpu, cuda, or one of them for each stage, as cuda:0,cuda:1",
        "run stages --device tpu": "give cpu, cuda",
    }
    if CARDS not in get_available_providers():
        refusals["run stages --device cuda"] = "onnxruntime knows no graphics cards here"
    assert_misuse(capsys, refusals)


def test_bug_a_folder_of_stages_was_not_explained(network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`verify`, `report` and `export` took it. One stage was called "1 stages"."""
    assert mtpp(f"split net.onnx -k 2 --dim n=8 {SLOW} --time-limit 1 --bandwidth 1B/s --out stages") == 0
    assert "1 stage in stages; run it: mtpp run stages" in capsys.readouterr().out
    assert_misuse(capsys, {"report stages --out stages/manifest.json": "manifest.json: this is a file to read"})
    assert mtpp("explain stages") == 0
    assert "It is optimal: no partition into 2 stages is faster" in capsys.readouterr().out
