"""Process that traces one network of an installed package and writes its graph; run it as a module.

``python -m instances.suites.network_process PACKAGE MODEL FILE``. It builds the model of that name with random weights,
or without any, in inference, and loads nothing from a network. The last line of stderr says what failed.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from importlib.metadata import version
from typing import Any

from instances.errors import InputError
from instances.graph.graph import save_graph
from instances.readers.pytorch.export import first_line, trace
from instances.suites.suite import BATCH, NOT_IMPORTED, SEQUENCE
from instances.system.processes import limit_process

_MEMORY = 8 * 2**30
_CPU_SECONDS = 900
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY")

#: A function that builds a network, and its example inputs by name or place.
Recipe = tuple[Callable[[], Any], tuple[Any, ...], dict[str, Any]]


def _timm(model: str) -> Recipe:
    import timm

    size = timm.get_pretrained_cfg(model).input_size
    import torch

    return lambda: timm.create_model(model, pretrained=False).eval(), (torch.empty(BATCH, *size),), {}


def _torchvision(model: str) -> Recipe:
    import torch
    from torchvision import models

    preset = models.get_model_weights(model).DEFAULT.transforms.keywords
    crop = preset.get("crop_size", preset.get("resize_size", 224))
    side = tuple(crop) if isinstance(crop, list | tuple) else (crop, crop)
    frames = (16,) if ".video." in models.get_model_builder(model).__module__ else ()
    options = {"weights": None}
    if "weights_backbone" in inspect.signature(models.get_model_builder(model)).parameters:
        options["weights_backbone"] = None
    return lambda: models.get_model(model, **options).eval(), (torch.empty(BATCH, 3, *frames, *side),), {}


def _transformers(model: str) -> Recipe:
    import torch
    from transformers import MODEL_MAPPING, AutoConfig

    config = AutoConfig.for_model(model)
    kind = MODEL_MAPPING[type(config)]
    kind = kind[0] if isinstance(kind, list | tuple) else kind
    for part in (config, config.get_text_config()):
        if getattr(part, "use_cache", False):
            part.use_cache = False
    parameters = inspect.signature(kind.forward).parameters
    tokens = torch.zeros(BATCH, SEQUENCE, dtype=torch.long)
    inputs: dict[str, Any] = {}
    if "input_ids" in parameters:
        inputs["input_ids"] = tokens
    if "decoder_input_ids" in parameters and getattr(config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = tokens
    if kind.main_input_name == "pixel_values" or ("pixel_values" in parameters and "input_ids" not in parameters):
        vision = getattr(config, "vision_config", config)
        side = getattr(vision, "image_size", 224) or 224
        sides = tuple(side) if isinstance(side, list | tuple) else (side, side)
        inputs["pixel_values"] = torch.empty(BATCH, getattr(vision, "num_channels", 3), *sides)
    if not inputs:
        raise InputError(f"takes {kind.main_input_name}, neither tokens nor images.")
    if "return_dict" in parameters:
        inputs["return_dict"] = False
    return lambda: kind(config).eval(), (), inputs


_RECIPES = {"timm": _timm, "torchvision": _torchvision, "transformers": _transformers}


def main(package: str, model: str, file: str) -> int:
    """Trace a network and save its graph; the exit code is 2 if that failed, `NOT_IMPORTED` without the package."""
    os.environ.update(dict.fromkeys(_OFFLINE, "1"))
    limit_process(memory=_MEMORY, cpu_seconds=_CPU_SECONDS)
    try:
        import_module(package)
    except Exception as error:  # such as of a package that was built for another torch
        print(first_line(error), file=sys.stderr)
        return NOT_IMPORTED
    try:
        build, args, kwargs = _RECIPES[package](model)
        try:
            graph = trace(build, args, kwargs, name=model)
        except InputError:  # some networks compute with their weights while they are built
            graph = trace(build(), args, kwargs, name=model)
        origin = f"{package} {version(package)}, {model}, torch {version('torch')}"
        save_graph(replace(graph, source=f"{origin}, {graph.source}"), file)
    except Exception as error:  # whatever another package raises
        print(error if isinstance(error, InputError) else first_line(error), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
