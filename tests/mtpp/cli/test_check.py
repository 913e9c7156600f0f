"""The verb check where no program is installed, or the question is wrong; `tests/runtimes` has the programs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from command_line import assert_misuse, mtpp


def test_refusals_of_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line each says what is wrong and what to do."""
    words = tmp_path / "words"
    words.write_text("VLLM_PP_LAYER_PARTITION=1,2\n")
    assert_misuse(
        capsys,
        {
            f"check {words} --for vllm": "no parser of it can be called; those of accelerate, megatron",
            f"check {words} --for megatrom": "megatron",
            f"check {tmp_path}/none --for sglang": "there is no such file",
            f"check {words} --for openvino": "give its ONNX file",
            f"check {words} --for sglang --model {words}": "takes none; leave it out",
            f"check {words} --for accelerate --model {tmp_path}/none": "there is no such file or folder",
        },
    )


@pytest.mark.skipif(find_spec("megatron") is not None, reason="Megatron-Core is installed; tests/runtimes asks it")
def test_a_program_that_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = tmp_path / "words"
    words.write_text('--pipeline-model-parallel-size 1 --pipeline-model-parallel-layout "EttL"\n')
    assert mtpp(f"check {words} --for megatron") == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "megatron-core is not installed; install it beside mtpp" in line
