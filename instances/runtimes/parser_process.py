"""Process in which the parser of an installed runtime checks a file of settings; separate, as runtimes load much.

Called as ``python -m instances.runtimes.parser_process RUNTIME SETTINGS [MODEL]``. It prints ``ok``, ``refused`` or
``missing``, and on the next line the message of the runtime. Settings that are a program are not run: only constants
assigned in it are read.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution, version
from itertools import pairwise
from pathlib import Path
from typing import Any

from instances.system.processes import limit_process

#: Runtime to the package whose parser is called.
PACKAGES = {
    "accelerate": "accelerate",
    "megatron": "megatron-core",
    "onnxruntime-genai": "onnxruntime-genai",
    "openvino": "openvino",
    "sglang": "sglang",
    "torchtitan": "torchtitan",
}


_MEMORY = 2**34
_SGLANG = "SGLANG_PP_LAYER_PARTITION"


def _accelerate(settings: Path, model: Path) -> str:
    """Outcome of accelerate's check of a device map for the modules of a configuration; no code of the model runs."""
    transformers, torch = import_module("transformers"), import_module("torch")
    check = import_module("accelerate.utils").check_device_map
    configuration = transformers.AutoConfig.from_pretrained(str(model), trust_remote_code=False, local_files_only=True)
    with torch.device("meta"):
        built = transformers.AutoModelForCausalLM.from_config(configuration, trust_remote_code=False)
    device_map = json.loads(settings.read_text(encoding="utf-8"))
    names = {name for name, _ in built.named_modules()}.union(built.state_dict())
    strange = [name for name in device_map if name not in names]
    if strange:
        raise ValueError(f"{type(built).__name__} has no module {strange[0]}")
    check(built, device_map)
    return f"{len(device_map)} modules of {type(built).__name__}"


def _megatron(settings: Path, model: Path) -> str:
    text = settings.read_text(encoding="utf-8")
    size = re.search(r"--pipeline-model-parallel-size (\d{1,6})", text)
    layout = re.search(r'--pipeline-model-parallel-layout "([^"]*)"', text)
    if size is None or layout is None:
        raise ValueError("there is no --pipeline-model-parallel-size or no --pipeline-model-parallel-layout")
    module = import_module("megatron.core.transformer.pipeline_parallel_layer_layout")
    parsed = module.PipelineParallelLayerLayout(layout[1], int(size[1]))
    layers = sum(part.name == "decoder" for rank in parsed.layout for stage in rank for part in stage)
    parsed.validate_layer_layout(layers, None)
    return f"{layers} layers on {size[1]} ranks"


def _genai(settings: Path, model: Path) -> str:
    module = import_module("onnxruntime_genai")
    module.Config(str(settings.parent))
    return "the configuration of its folder"


def _openvino(settings: Path, model: Path) -> str:
    from instances.runtimes.serving import program

    openvino, values = import_module("openvino"), _values(settings)
    scope: dict[str, Any] = {}
    exec(program(values["DEVICES"], values["STAGE"]), scope)
    read = openvino.Core().read_model(str(model))
    device = scope["assign"](read)
    for operator in read.get_ordered_ops():  # devices that are not there cannot compile; one that always is does
        operator.get_rt_info()["affinity"] = "CPU"
    openvino.Core().compile_model(read, "HETERO:CPU")
    return f"an affinity for {len(read.get_ordered_ops())} operators, {device}"


def _sglang(settings: Path, model: Path) -> str:
    command = shlex.split(settings.read_text(encoding="utf-8").strip().splitlines()[-1])
    value = next((word.removeprefix(f"{_SGLANG}=") for word in command if word.startswith(f"{_SGLANG}=")), None)
    if value is None:
        raise ValueError(f"there is no {_SGLANG}")
    for option in command:
        if option.startswith("--") and not _is_sglang_option(option):
            raise ValueError(f"there is no option {option}")
    counts = [int(count) for count in value.split(",")]
    indices = _function("sglang", "sglang/srt/distributed/utils.py", "get_pp_indices")
    os.environ[_SGLANG] = value
    ranks = [indices(sum(counts), rank, len(counts)) for rank in range(len(counts))]
    if any(end != begin for (_, end), (begin, _) in pairwise(ranks)) or any(begin >= end for begin, end in ranks):
        raise ValueError(f"it divides the layers as {ranks}")
    return f"{sum(counts)} layers as {', '.join(f'{begin} to {end - 1}' for begin, end in ranks)}"


def _is_sglang_option(option: str) -> bool:
    """Whether the SGLang server has an option, in its parser or as a field of its arguments."""
    folder = Path(str(distribution("sglang").locate_file("sglang/srt")))
    texts = [
        path.read_text(encoding="utf-8") for path in (folder / "server_args.py", *folder.glob("arg_groups/fields/*.py"))
    ]
    field = option.removeprefix("--").replace("-", "_")
    return any(f'"{option}"' in text or re.search(rf"^ +{re.escape(field)}:", text, re.MULTILINE) for text in texts)


def _torchtitan(settings: Path, model: Path) -> str:
    (call,) = (node for node in ast.walk(ast.parse(settings.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
    fields = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    config = import_module("torchtitan.config.configs").ParallelismConfig(**fields)
    return f"{len(config.module_fqns_per_model_part)} parts of modules"


def _values(settings: Path) -> dict[str, Any]:
    """Constants assigned in a program, by name."""
    body = ast.parse(settings.read_text(encoding="utf-8")).body
    named = [(node.targets[0], node.value) for node in body if isinstance(node, ast.Assign)]
    return {target.id: ast.literal_eval(value) for target, value in named if isinstance(target, ast.Name)}


def _function(package: str, file: str, name: str) -> Callable[..., Any]:
    """A function of an installed package, loaded without its module, which would need GPUs."""
    path = Path(str(distribution(package).locate_file(file)))
    (definition,) = (
        node
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name == name
    )
    scope: dict[str, Any] = {"os": os, "Tuple": tuple}
    exec(compile(ast.Module([definition], []), str(path), "exec"), scope)
    function: Callable[..., Any] = scope[name]
    return function


_PARSERS: dict[str, Callable[[Path, Path], str]] = {
    "accelerate": _accelerate,
    "megatron": _megatron,
    "onnxruntime-genai": _genai,
    "openvino": _openvino,
    "sglang": _sglang,
    "torchtitan": _torchtitan,
}


def _main(runtime: str, settings: str, model: str = "") -> None:
    package = PACKAGES[runtime]
    limit_process(memory=_MEMORY)
    try:
        release = version(package)
    except PackageNotFoundError:
        print(f"missing\n{package} is not installed")
        return
    try:
        with redirect_stdout(sys.stderr):
            reply = _PARSERS[runtime](Path(settings), Path(model))
        print(f"ok\n{package} {release}: {reply}")
    except ImportError as error:
        print(f"missing\n{package} {release} cannot be loaded: {error}")
    except Exception as error:
        print(f"refused\n{package} {release}: {type(error).__name__}: {' '.join(str(error).split())}")


if __name__ == "__main__":
    _main(*sys.argv[1:])
