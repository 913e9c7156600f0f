"""The whole model beside its stages: what is measured, and the sentence about it."""

from __future__ import annotations

from pathlib import Path

import pytest

import mtpp
from instances import InputError
from mtpp.stages.splitting import Alternatives

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


@pytest.mark.parametrize(
    ("period", "one", "copies", "words"),
    [
        (2.0, 1.0, 3.0, "not worth it here: one process on the same 2 cores take 50%"),
        (2.0, 3.0, 1.0, "not worth it here: 2 copies of the model on the same 2 cores take 50%"),
        (1.0, 2.0, 3.0, "is worth it: one process on the same 2 cores take 2.00 times as long"),
        (1.0, 1.01, 3.0, "as fast as one process"),
        (None, 1.0, 1.0, "nothing to compare"),
    ],
)
def test_the_sentence_says_which_is_faster(period: float | None, one: float, copies: float, words: str) -> None:
    assert words in Alternatives(2, one, copies, 10).sentence(period)


def test_the_whole_model_is_measured_beside_its_stages(tmp_path: Path) -> None:
    """In one process and in copies; another file is refused before it runs."""
    from stage_folders import two_stages

    folder, manifest = two_stages(tmp_path)
    model = tmp_path / manifest.model
    found = mtpp.run(folder, requests=5, compare=model)
    assert found.others is not None
    assert found.others.cores in (1, 2)
    assert found.others.model_bytes == model.stat().st_size
    assert min(found.others.one_process, found.others.copies) > 0
    assert found.document()["others"]["copies"] == found.others.copies
    assert mtpp.run(folder, requests=5).others is None
    (tmp_path / "other.onnx").write_bytes(model.read_bytes() + b"x")
    with pytest.raises(InputError, match="this is not the model that was split"):
        mtpp.run(folder, requests=5, compare=tmp_path / "other.onnx")
