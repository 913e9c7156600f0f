"""torchtitan: the modules of each stage, which may be a virtual one, by their names."""

from __future__ import annotations

import json
from collections.abc import Callable

from instances.runtimes.layer_cut import LayerCut
from instances.runtimes.module_names import ModuleNames
from instances.runtimes.runtime import LayerRuntime

__all__ = ["TORCHTITAN", "torchtitan_default"]


def torchtitan_default(layers: int, k: int) -> tuple[int, ...]:
    """Default number of layers of each stage.

    Embeddings and head count as a layer each; the stages are equal, the first ones with one more where they cannot be.

    Examples
    --------
    >>> torchtitan_default(32, 8)
    (4, 5, 4, 4, 4, 4, 4, 3)
    """
    counts = [(layers + 2) // k + (stage < (layers + 2) % k) for stage in range(k)]
    counts[0] -= 1
    counts[-1] -= 1
    return tuple(counts)


_HEADS = {"0.2": "output", "0.3": "lm_head"}


def _names(version: str) -> tuple[dict[str, ModuleNames], str]:
    """Modules of the networks of torchtitan."""
    llama = ModuleNames(("tok_embeddings",), "layers", ("norm", _HEADS[version]))
    return {"llama-": llama, "mixtral-": llama}, "torchtitan"


def _parts(cut: LayerCut, version: str) -> list[list[str]]:
    names = cut.naming.modules(*_names(version), ends=True)
    return [
        [*(names.before if n == cut.first else ())]
        + [names.layer(layer) for layer in cut.members(n)]
        + [*(names.after if n == cut.last else ())]
        for n in range(cut.k)
    ]


def _toml(cut: LayerCut) -> str:
    """The section of a configuration file."""
    parts = json.dumps(_parts(cut, "0.2"))
    return f"[parallelism]\npipeline_parallel_degree = {cut.devices}\nmodule_fqns_per_model_part = {parts}\n"


def _python(cut: LayerCut) -> str:
    """The field `parallelism` of a `Trainer.Config`, which is a program from 0.3 on."""
    parts = json.dumps(_parts(cut, "0.3"))
    return (
        "from torchtitan.config import ParallelismConfig\n\nparallelism = ParallelismConfig(\n"
        f"    pipeline_parallel_degree={cut.devices},\n    module_fqns_per_model_part={parts},\n)\n"
    )


def _runtime(version: str, write: Callable[[LayerCut], str], earlier: tuple[LayerRuntime, ...] = ()) -> LayerRuntime:
    return LayerRuntime.of_units(
        "torchtitan",
        "module_fqns_per_model_part of its configuration, Python; TOML up to 0.2",
        "torchtitan/distributed/pipeline_parallel.py",
        "#",
        write,
        version=version,
        names=_names(version),
        earlier=earlier,
    )


TORCHTITAN = _runtime("0.3", _python, (_runtime("0.2", _toml),))
