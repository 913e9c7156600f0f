"""Stages at work: outputs are the whole model's, and whatever a stage does, one line says so and nothing is left."""

from __future__ import annotations

import gc
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")

from onnx_models import model, save  # noqa: E402
from stage_folders import altered, cut_by, split_into, two_stages  # noqa: E402

from instances import InputError  # noqa: E402
from mtpp.stages.folder import difference  # noqa: E402
from mtpp.stages.manifest import TensorRecord  # noqa: E402
from mtpp.stages.runner import Pipeline, StageError, StageJob  # noqa: E402
from mtpp.stages.trial import try_stages  # noqa: E402

ENDLESS = """g (float[2,3] a, float[2,3] b) => (float[2,3] y) {
    n = Constant<value = int64 {9000000000000000}> ()
    t = Constant<value = bool {1}> ()
    y = Loop (n, t, a) <body = l (int64 i, bool c, float[2,3] s) => (bool d, float[2,3] r) {
        d = Identity(c) r = Add(s, b)
    }>
}"""


def stages_left() -> list[str]:
    """Command lines of processes of stages that this process started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace")
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if "stage_process" in words and parent == str(os.getpid()):
            found.append(words)
    return found


@pytest.fixture
def clean() -> object:
    """Nothing is left of a run: no process, no pipe, no memory, which has no name but its descriptor."""
    descriptors = len(os.listdir("/proc/self/fd"))
    yield None
    if len(os.listdir("/proc/self/fd")) > descriptors:
        gc.collect()  # errors keep what they passed through
    assert stages_left() == []
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def copying(stages: int, size: int = 100) -> list[StageJob]:
    """A chain of processes that copy tensors; the first sends to the last, too."""
    tensor = [TensorRecord(f"t{i}", "uint8", (size,)) for i in range(stages)]
    jobs = []
    for i in range(stages):
        senders = sorted({i - 1, 0} - {-1, i}) if i == stages - 1 else [i - 1] if i else []
        readers = sorted({i + 1, stages - 1} - {i}) if i == 0 else [i + 1] if i < stages - 1 else []
        inputs = tuple(tensor[j].received(j) for j in senders)
        jobs.append(StageJob(f"stage {i}", inputs, (tensor[i].sent(tuple(readers)),)))
    return jobs


def test_too_many_links_are_one_line(clean: object) -> None:
    """Each link is two pipes."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Pipeline(copying(100)) as pipeline:
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, limits[1]))
        try:
            with pytest.raises(
                StageError, match="100 stages with 100 links need more open files than are allowed here"
            ):
                pipeline.start()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_outputs_are_those_of_the_whole_model(tmp_path: Path, clean: object) -> None:
    """Of each request that is compared, with every byte."""
    folder, _ = two_stages(tmp_path)
    trial = try_stages(folder, requests=30)
    assert trial.agreement is not None
    assert (trial.agreement.requests, trial.agreement.exact, trial.agreement.worst) == (4, 4, 0.0)
    assert trial.events.shape == (2, 30, 3)
    assert (trial.events[1, :, 0] >= trial.events[0, :, 1]).all()
    assert (trial.events[:, 1:, 0] >= trial.events[:, :-1, 1]).all()
    assert all(0 < share <= 1 for share in trial.busy)
    assert trial.period is not None
    assert trial.period > 0


def test_tensors_that_skip_stages_and_several_outputs(tmp_path: Path, clean: object) -> None:
    nodes = "a = Relu(x) b = Neg(a) c = Tanh(b) d = Add(c, a) y = MatMul(d, w) s = Neg(z)"
    text = f"g (float[2,3] x, int64[4] z) => (float[2,3] y, float[2,3] b, int64[4] s) {{ {nodes} }}"
    path = save(tmp_path, model(text, w=(3, 3)))
    split_into(tmp_path / "stages", path, cut_by(path, [0, 1, 2, 3, 3, 1]))
    trial = try_stages(tmp_path / "stages", requests=20, queue=1)
    assert trial.agreement is not None
    assert trial.agreement.exact == trial.agreement.requests > 0


def test_types_and_shapes(tmp_path: Path, clean: object) -> None:
    """Scalars, no elements at all, truth, and numbers of half a float pass from stage to stage."""
    nodes = "a = Relu(x) b = Cast<to = 16>(a) c = Not(t) d = Add(s, s) f = Neg(e) "
    nodes += "y = Cast<to = 1>(b) z = Not(c) u = Neg(d) v = Neg(f)"
    given = "float[2] x, bool t, float s, float16[0,3] e"
    network = model(f"g ({given}) => (float[2] y, bool z, float u, float16[0,3] v, bfloat16[2] b) {{ {nodes} }}")
    path = save(tmp_path, network)
    split_into(tmp_path / "stages", path, cut_by(path, [0, 0, 0, 0, 0, 1, 1, 1, 1]))
    for fusion in (False, True):
        trial = try_stages(tmp_path / "stages", requests=5, fusion=fusion)
        assert trial.agreement is not None
        assert trial.agreement.exact == trial.agreement.requests == 4


def test_queues_are_bounded(clean: object) -> None:
    """The first stage is at most the queue and the way to its last reader ahead."""
    with Pipeline(copying(4), queue=1, requests=50) as pipeline:
        pipeline.start()
        assert pipeline.slots == 3
        events = pipeline.run(50)
        assert (events[0, 3:, 0] >= events[3, :-3, 1]).all()
        assert (pipeline.run(1)[:, 0, 1] > 0).all()


def test_other_outputs_are_told(tmp_path: Path, clean: object) -> None:
    folder, _ = two_stages(tmp_path)
    network = onnx.load(folder / "stage-1.onnx")
    next(node for node in network.graph.node if node.op_type == "Add").op_type = "Sub"
    altered(folder, "stage-1.onnx", network.SerializeToString())
    trial = try_stages(folder, requests=5)
    assert trial.agreement is not None
    assert trial.agreement.name == "y"
    assert trial.agreement.exact == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("g (float[2,3] a, float[2,3] b) => (float[n,m] y) { y = Transpose(a) }", "invalid dimensions|shape"),
        ("g (float[2,3] a, float[2,3] b) => (double[2,3] y) { y = Cast<to = 11>(a) }", "type"),
        ("g (float[2,3] a, float[2,3] b) => (float[2,3] z) { z = Add(a, b) }", "y"),
        ("g (float[2,3] a, float[2,3] q) => (float[2,3] y) { y = Add(a, q) }", "b|q"),
        ("g (float[2,3] a, float[2,3] b) => (float[2,3] y) { y = my.own.Secret(a, b) }", "Secret"),
        (
            "g (float[2,3] a, float[2,3] b) => (float[2,3] y) "
            "{ n = Constant<value = int64[1] {900000000000}>() c = ConstantOfShape(n) s = ReduceSum(c) d = Add(a, s) "
            "y = Add(d, b) }",
            "memory|alloc",
        ),
    ],
)
def test_a_stage_that_does_something_else_is_named(tmp_path: Path, clean: object, text: str, words: str) -> None:
    """Another shape, type or name, an operator that onnxruntime lacks, too much memory: one line."""
    folder, _ = two_stages(tmp_path)
    altered(folder, "stage-1.onnx", model(text).SerializeToString())
    with pytest.raises(StageError, match=rf"^stage 1 \(stage-1.onnx\): .*({words})") as error:
        try_stages(folder, requests=5, timeout=600)
    assert "\n" not in str(error.value)


def test_no_model_at_all_is_named(tmp_path: Path, clean: object) -> None:
    folder, _ = two_stages(tmp_path)
    altered(folder, "stage-0.onnx", b"no model")
    with pytest.raises(InputError, match=r"stage-0.onnx: not an ONNX model, or cut short"):
        try_stages(folder)


def test_a_stage_that_hangs_is_named(tmp_path: Path, clean: object) -> None:
    folder, _ = two_stages(tmp_path)
    altered(folder, "stage-1.onnx", model(ENDLESS).SerializeToString())
    with pytest.raises(StageError, match=r"^stage 1 \(stage-1.onnx\): it did nothing within 2 s and was stopped"):
        try_stages(folder, timeout=2.0)


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_stage_that_dies_is_named(clean: object, victim: int) -> None:
    """Not its neighbours, which end as well."""
    with Pipeline(copying(3, 2**20), requests=10**6) as pipeline:
        pipeline.start()
        number = pipeline.processes[victim]
        threading.Timer(0.2, lambda: os.kill(number, signal.SIGKILL)).start()
        with pytest.raises(StageError, match=f"^stage {victim}: its process was ended by SIGKILL"):
            pipeline.run(10**6)


def test_a_stage_that_ends_when_its_parent_does() -> None:
    """Even if that had no time to say so."""
    with Pipeline(copying(2), requests=10) as pipeline:
        pipeline.start()
        processes = list(pipeline._processes)
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in processes:
            process.wait()


def test_other_weights_are_not_read(tmp_path: Path, clean: object) -> None:
    """A stage names no file but that of the manifest."""
    folder, _ = two_stages(tmp_path)
    (tmp_path / "secret.bin").write_bytes(bytes(36))
    network = onnx.load(folder / "stage-0.onnx")
    weight = network.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="../secret.bin")
    altered(folder, "stage-0.onnx", network.SerializeToString())
    with pytest.raises(InputError, match=r"stage-0.onnx: .*'../secret.bin', which the manifest does not name"):
        try_stages(folder)


def test_a_model_too_large_for_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = two_stages(tmp_path)
    monkeypatch.setattr("mtpp.stages.trial.available_memory", lambda: 100)
    with pytest.raises(InputError, match="GB of memory, and 1e-07 GB are free; run them on a larger machine"):
        try_stages(folder)


def test_differences() -> None:
    numbers = TensorRecord("a", "float", (3,))

    def apart(a: list[float], b: list[float]) -> tuple[float, float]:
        left, right = (np.array(values, np.float32).view(np.uint8) for values in (a, b))
        return difference(numbers, left, right)

    assert apart([1, 2, np.nan], [1, 2, np.nan]) == (0, pytest.approx(2e-3))
    assert apart([1, 2, 4], [1, 2, 5]) == (1, pytest.approx(5e-3))
    assert apart([1e-6, 0, 0], [2e-6, 0, 0]) == (pytest.approx(1e-6), 1e-5)  # near zero, where fused operators differ
    assert apart([1, 2, np.nan], [1, 2, 3]) == (np.inf, pytest.approx(3e-3))
    assert apart([1, 2, np.inf], [1, 2, -np.inf])[0] == np.inf


def test_whole_numbers_differ_where_operators_are_fused() -> None:
    """A few of many points may fall into another class; without fusing all are as they were."""
    whole = TensorRecord("a", "int16", (2000,))
    classes = np.arange(2000, dtype=np.int16)
    for others, fine in ((1, True), (20, False)):
        found = np.where(np.arange(2000) < others, -1, classes).astype(np.int16)
        apart, allowed = difference(whole, found.view(np.uint8), classes.view(np.uint8), fusion=True)
        assert (apart, apart <= allowed) == (others / 2000, fine)
        assert difference(whole, found.view(np.uint8), classes.view(np.uint8)) == (np.inf, 0)


def test_links_are_measured(clean: object, monkeypatch: pytest.MonkeyPatch) -> None:
    from mtpp.stages import runner

    monkeypatch.setattr(runner, "_SIZES", (64, 2**18))
    link = runner.measure_link()
    assert link.bandwidth > 0
    assert link.latency >= 0
    assert len(link.document()["messages"]) == 2


def test_ctrl_c_leaves_nothing(tmp_path: Path, clean: object) -> None:
    """The exit code is 130, nothing is printed, and no process is left."""
    folder, _ = two_stages(tmp_path)
    altered(folder, "stage-1.onnx", model(ENDLESS).SerializeToString())
    command = "from mtpp.cli.main import main; import sys; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", command, "run", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None and len(children.read_text().split()) < 2:
        time.sleep(0.05)
    found = [int(number) for number in children.read_text().split()]
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to all of them
    out, err = process.communicate()
    assert (process.returncode, out, err) == (130, "", "")
    assert len(found) == 2
    assert not any(Path(f"/proc/{number}").exists() for number in found)
