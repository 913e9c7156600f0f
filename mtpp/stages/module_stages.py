"""Stages of a PyTorch module as modules of this process, compared with the whole on its example."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from instances import InputError, Result
from instances.graph.display import Displayed, Rows
from mtpp.stages.torch_run import differences

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

__all__ = ["ModuleStages", "example_of", "stages_of_module"]

_SEED = 0
#: How far outputs may be apart, by bytes of an element: operators run in another order, and not as others.
_TOLERANCES = {2: 2e-2, 4: 1e-4, 8: 1e-9}

#: Inputs by place and by name.
Example = tuple[Sequence[Any], Mapping[str, Any]]


@dataclass(frozen=True, eq=False, repr=False)
class ModuleStages(Displayed):
    """A module in stages, which are modules. Called as the module is, it runs them one after the other.

    Parameters
    ----------
    result : Result
        The partition of its operators, with its bounds.
    whole : torch.fx.GraphModule
        Calls the stages with the inputs in a row.
    program : torch.export.ExportedProgram
        What was cut.
    difference : float, optional
        The largest difference of an output on the example from that of the whole module, as a part of the largest
        number of that output; None where there was nothing to run.
    """

    result: Result
    whole: torch.nn.Module
    program: ExportedProgram
    difference: float | None = None

    @property
    def stages(self) -> tuple[torch.nn.Module, ...]:
        """A module for each block that is not empty, each with the parameters that it uses."""
        return tuple(self.whole.children())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run all stages; the inputs have to be of the kinds and shapes of the example.

        Raises
        ------
        InputError
            If there are others.
        """
        from torch.utils._pytree import tree_flatten, tree_unflatten

        spec = self.program.call_spec
        assert spec.in_spec is not None
        names = list(spec.in_spec.children()[1].context)
        ordered = {name: kwargs[name] for name in (*(n for n in names if n in kwargs), *kwargs)}
        flat, structure = tree_flatten((args, ordered))
        if structure != spec.in_spec:
            raise InputError(f"{self._title()}: give the inputs by place and name as in the example.")
        outputs = self.whole(*flat)
        return tree_unflatten(list(outputs) if isinstance(outputs, list | tuple) else [outputs], spec.out_spec)

    def _title(self) -> str:
        return self.result.instance.label

    def _facts(self) -> dict[str, str]:
        difference = "not run" if self.difference is None else f"{self.difference:.2g} from the module's at the most"
        return {"stages": str(len(self.stages)), "outputs": difference, **self.result._facts()}

    def _rows(self) -> Rows | None:
        return self.result._rows()


def example_of(program: ExportedProgram) -> Example | None:
    """The inputs that a program was exported with; None where its weights or inputs have no values."""
    import torch
    from torch._subclasses import FakeTensor
    from torch.utils._pytree import tree_leaves

    leaves = tree_leaves((program.example_inputs, dict(program.state_dict), dict(program.constants)))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if program.example_inputs is None or any(tensor.is_meta or isinstance(tensor, FakeTensor) for tensor in tensors):
        return None
    return program.example_inputs


def stages_of_module(
    program: ExportedProgram, result: Result, model: Callable[..., Any], example: Example | None
) -> ModuleStages:
    """The stages of a partition.

    Parameters
    ----------
    program : ExportedProgram
        In core ATen operators.
    result : Result
        With a partition of the program's graph.
    model : callable
        What the program was exported from, to compare with.
    example : Example, optional
        Where there is one, stages and model are run with it.

    Raises
    ------
    InputError
        If a stage cannot be made, or gives something else than the model.
    """
    from instances.readers.pytorch.stages import split

    assert result.partition is not None
    cut = ModuleStages(result, split(program, result.partition), program)
    if example is None:
        return cut
    apart = 0.0
    theirs = _outputs(model, example)
    for run in (model, cut):
        for tensor, far in zip(theirs, differences(_outputs(run, example), theirs), strict=False):
            if far > _TOLERANCES.get(tensor.itemsize if tensor.is_floating_point() else 0, 0.0):
                who = "it gives something else at each call" if run is model else "its stages give something else"
                raise InputError(
                    f"{cut._title()}: on the example {who} ({far:.2g} of the largest number); give the module in eval "
                    "mode, without changes of itself."
                )
            apart = max(apart, far)
    return ModuleStages(result, cut.whole, program, apart)


def _outputs(model: Callable[..., Any], example: Example) -> list[torch.Tensor]:
    import torch
    from torch.utils._pytree import tree_leaves

    args, kwargs = example
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        result = model(*args, **kwargs)
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
