"""Runtimes of pipelines: the settings of each for a cut, and its legal cuts as constraints of the question.

- `runtime`: what all have; `layer_stack`: the layers of a graph by its names; `layer_cut`: a cut between them
- one file a runtime
"""

from instances.registry import Registry
from instances.runtimes.accelerate import ACCELERATE
from instances.runtimes.deepspeed import DEEPSPEED
from instances.runtimes.galvatron import GALVATRON
from instances.runtimes.llama_cpp import LLAMA_CPP
from instances.runtimes.megatron import MEGATRON
from instances.runtimes.onnxruntime_genai import ONNXRUNTIME_GENAI
from instances.runtimes.openvino import OPENVINO
from instances.runtimes.pytorch import PYTORCH
from instances.runtimes.runtime import Runtime
from instances.runtimes.sglang import SGLANG
from instances.runtimes.tensorrt_llm import TENSORRT_LLM
from instances.runtimes.torchtitan import TORCHTITAN
from instances.runtimes.vllm import VLLM

__all__ = ["RUNTIMES", "Runtime"]

_ALL: tuple[Runtime, ...] = (
    VLLM,
    SGLANG,
    TENSORRT_LLM,
    MEGATRON,
    TORCHTITAN,
    PYTORCH,
    ACCELERATE,
    LLAMA_CPP,
    DEEPSPEED,
    GALVATRON,
    OPENVINO,
    ONNXRUNTIME_GENAI,
)

#: Name to runtime.
RUNTIMES = Registry(_ALL, "mtpp.runtimes")
