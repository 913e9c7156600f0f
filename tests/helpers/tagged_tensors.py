"""Runs of modules whose tensors are said to be on devices, moved as accelerate's hooks do; an operator mixes none."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.weak import WeakIdKeyDictionary

__all__ = ["MixedDevicesError", "tagged_run"]


class MixedDevicesError(AssertionError):
    """An operator reads tensors of several devices."""


class _Devices(TorchDispatchMode):
    """Results are where the operands are; what an operator makes of nothing has no device."""

    def __init__(self) -> None:
        super().__init__()
        self.device: Any = WeakIdKeyDictionary()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        operands = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        devices = {self.device[leaf] for leaf in operands if leaf in self.device}
        if len(devices) > 1:
            raise MixedDevicesError(f"{func} of devices {sorted(devices)}")
        for leaf in tree_leaves(output) if devices else ():
            if isinstance(leaf, torch.Tensor):
                self.device[leaf] = next(iter(devices))
        return output

    def moved(self, values: Any, device: int) -> Any:
        def move(tensor: torch.Tensor) -> torch.Tensor:
            moved = tensor.detach().clone()
            self.device[moved] = device
            return moved

        return tree_map_only(torch.Tensor, move, values)


def tagged_run(
    model: torch.nn.Module, device_map: Mapping[str, int], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Run a module under a device map; its inputs and own weights are on the first device of the map.

    Raises
    ------
    MixedDevicesError
        If an operator reads tensors of several devices.
    """
    main = next(iter(device_map.values()))
    model, devices = copy.deepcopy(model), _Devices()
    for name, module in model.named_modules():
        for held in (module._parameters, module._buffers):
            for weight, tensor in held.items():
                place = _place(device_map, f"{name}.{weight}" if name else weight, None if name else main)
                if tensor is not None and place is not None:
                    held[weight] = devices.moved(tensor, place)  # a tied one is copied
        device = main if not name else _place(device_map, name, None)
        if device is not None and (name in ("", *device_map) or module.state_dict()):
            module.register_forward_pre_hook(partial(_move, devices, device), with_kwargs=True)
    with torch.no_grad(), devices:
        return model(*args, **kwargs)


def _place(device_map: Mapping[str, int], path: str, otherwise: int | None) -> int | None:
    keys = [key for key in device_map if f"{path}.".startswith(f"{key}.")]
    return device_map[max(keys, key=len)] if keys else otherwise


def _move(devices: _Devices, place: int, _: torch.nn.Module, args: Any, kwargs: Any) -> Any:
    return devices.moved((args, kwargs), place)
