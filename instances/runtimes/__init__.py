"""Runtimes of pipelines: the settings of each for a cut, and its legal cuts as constraints of the question.

- `runtime`: what all have; `layers`: the layers of a graph by its names, and cuts between them
- `layer_counts`: those that take numbers of layers; `modules`: names of modules; `serving`: files, or operators by name
- `training`: those that train; `serving_front`: the answer for serving; `parser_process`: parsers of installed programs
"""

from collections.abc import Callable

from instances.errors import Registry
from instances.runtimes.layer_counts import LAYER_COUNTS
from instances.runtimes.layers import Cut
from instances.runtimes.modules import ACCELERATE, PYTORCH, TORCHTITAN
from instances.runtimes.runtime import Runtime
from instances.runtimes.serving import ONNXRUNTIME_GENAI, OPENVINO
from instances.runtimes.training import DEEPSPEED, MEGATRON

__all__ = ["RUNTIMES", "Runtime", "no_writers", "writers"]

_ALL: tuple[Runtime, ...] = (
    *LAYER_COUNTS,
    MEGATRON,
    TORCHTITAN,
    PYTORCH,
    ACCELERATE,
    DEEPSPEED,
    OPENVINO,
    ONNXRUNTIME_GENAI,
)

#: Name to runtime.
RUNTIMES = Registry(_ALL, "mtpp.runtimes")


def writers(*runtimes: Runtime) -> dict[str, Callable[[Cut], str]]:
    """By runtime name, the function that writes its settings for a cut of the graph; of all runtimes by default."""
    return {runtime.name: runtime.settings for runtime in runtimes or RUNTIMES.values()}


def no_writers(*runtimes: Runtime) -> dict[str, Callable[[Cut], str]]:
    """An empty mapping, for answers that are not cuts into stages."""
    return {}
