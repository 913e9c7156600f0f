"""Modules of a network by their paths: those before the layers, the layers, and those after them.

The names of nodes of programs are paths of modules, as ``transformer.h.7.mlp.mm``. Built-in networks have names of
their own, so that a library that runs them has a table; of others nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from instances.errors import InputError
from instances.graph.graph import ComputationGraph
from instances.runtimes.layer_stack import LayerStack

__all__ = ["TRANSFORMERS", "ModuleNames", "Naming"]

_BUILT_IN = "parametric architecture"
_TRANSFORMERS = "transformers"
#: Of its graphs a node without a path is code of the whole network.
_PROGRAM = "torch.export"
_OWN_STEMS = ("decoder", "encoder")
_PATH = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")


@dataclass(frozen=True)
class ModuleNames:
    """Paths of modules, without their dot at the end."""

    before: tuple[str, ...]  # in the order in which they run
    stem: str  # of the layers, before their number
    after: tuple[str, ...]

    def layer(self, number: int) -> str:
        """Path of a layer."""
        return f"{self.stem}.{number}"


_LLAMA = ModuleNames(("model.embed_tokens",), "model.layers", ("model.norm", "lm_head"))

#: Built-in network, by how its name begins, to its modules in Hugging Face transformers: with a head, BERT without.
TRANSFORMERS: Mapping[str, ModuleNames] = {
    "bert-": ModuleNames(("embeddings",), "encoder.layer", ("pooler",)),
    "gpt2": ModuleNames(("transformer.wte", "transformer.wpe"), "transformer.h", ("transformer.ln_f", "lm_head")),
    "llama-": _LLAMA,
    "mixtral-": _LLAMA,
}


@dataclass(frozen=True)
class Naming:
    """All that a network tells of the names of its modules.

    Parameters
    ----------
    network, stem : str
        Name of the network, and of its layers before their number.
    built_in : bool
        Whether the names are those of this project, or of a configuration, which tells of those in transformers alone.
    before, after : tuple of str, optional
        Modules outside of the layers; None if they are not known.
    units : mapping of str to tuple of int
        Modules and single weights outside of the layers' modules, with the units of the nodes that read them.
    """

    network: str
    stem: str
    built_in: bool
    before: tuple[str, ...] | None = None
    after: tuple[str, ...] | None = None
    units: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of_graph(cls, graph: ComputationGraph, stack: LayerStack) -> Naming:
        """The names of a graph: a module holds parameters, or there are none at all."""
        if graph.source.startswith(_BUILT_IN):
            return cls(graph.name, stack.stem, True, *_configured(graph, stack.stem))
        holds = graph.param_bytes > 0
        for parameter in graph.parameters:
            holds[list(parameter.users)] = True
        if not holds.any():
            holds = np.ones(graph.n, dtype=bool)
        last = stack.layers + 1
        units: dict[str, dict[int, None]] = {}
        for v in graph.topological_order.tolist():
            path, unit = graph.names[v].strip("/").replace("/", "."), int(stack.unit[v])
            module = path.rpartition(".")[0] or path
            inside = f"{path}.".startswith(f"{stack.stem}.{unit - 1}.")
            root = module == path and (graph.source.startswith(_PROGRAM) or unit not in (0, last))
            if holds[v] and not inside and not root:
                units.setdefault(module, {})[unit] = None
        place = dict(zip(graph.names, stack.unit.tolist(), strict=True))
        stated = graph.attributes.get("weights_elsewhere")
        alone = stated.items() if isinstance(stated, dict) else ()
        by_name: dict[str, tuple[int, ...]] = {name: (place.get(str(reader), 0),) for name, reader in alone}
        by_name |= {name: tuple(numbers) for name, numbers in units.items()}
        before, after = (tuple(module for module, numbers in units.items() if end in numbers) for end in (0, last))
        return cls(graph.name, stack.stem, False, before, after, by_name)

    @classmethod
    def of_chain(cls, network: str, stem: str) -> Naming:
        """The names of a chain, which tells of its layers alone."""
        return cls(network, stem, built_in=stem in _OWN_STEMS)

    def tells(self, library: str) -> bool:
        """Whether the network itself tells the names of its modules in a library."""
        return not self.built_in or (library == _TRANSFORMERS and self.before is not None)

    def modules(self, builtin: Mapping[str, ModuleNames], library: str, *, ends: bool = False) -> ModuleNames:
        """The modules as a library calls them.

        Parameters
        ----------
        builtin : mapping of str to ModuleNames
            Those of built-in networks, by how their names begin.
        library : str
            For messages.
        ends : bool
            Whether those before and after the layers have to be known, too.

        Raises
        ------
        InputError
            If they are not known, or are no paths.
        """
        if not self.tells(library):
            match = next((names for start, names in builtin.items() if self.network.startswith(start)), None)
            if match is None:
                raise InputError(
                    f"{self.network}: nothing tells the names of its modules in {library}; give the model itself, as a "
                    "program of torch.export or an ONNX file with the paths of its modules."
                )
            return match
        if ends and self.before is None:
            raise InputError(
                f"{self.network}: a plan tells of its layers alone, not of the modules before and after them; export a "
                "partition of its graph."
            )
        for module in (*(self.before or ()), self.stem, *(self.after or ()), *self.units):
            if not _PATH.fullmatch(module):
                raise InputError(
                    f"{self.network}: {module} is no path of a module; give a graph whose nodes have such."
                )
        return ModuleNames(self.before or (), self.stem, self.after or ())


def _configured(graph: ComputationGraph, stem: str) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Modules before and after the layers as a configuration has them; None twice for other graphs."""
    stated = graph.attributes.get("modules")
    if not isinstance(stated, dict) or stated.get("layers") != stem:
        return None, None
    before, after = stated.get("before"), stated.get("after")
    if not isinstance(before, list) or not isinstance(after, list):
        return None, None
    return tuple(map(str, before)), tuple(map(str, after))
