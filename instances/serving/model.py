"""A decoder as serving sees it: numbers that its layers hold, read and multiply for each token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from instances.errors import InputError
from instances.graph.tensors import IntArray
from instances.records import Ints

#: Message about a model that is no decoder, or has another head.
NO_TOKENS = "it predicts no tokens one after the other; give a decoder with its head"


@dataclass(frozen=True)
class LayerShape:
    """Sizes of a layer, in numbers.

    Parameters
    ----------
    weights : int
        Weights that each token is multiplied with; a tensor degree divides them.
    whole : int
        Parameters that each device holds whole.
    expert, experts, chosen : int
        Weights of an expert, experts of the layer, and those that a token takes; 0 without experts.
    scores : int
        Widths of all queries and of all outputs of heads together; a token that attends to another one multiplies so
        many numbers.
    cache : int
        Numbers that a token keeps.
    heads, key_heads : int
        Heads of queries, which a tensor degree has to divide, and of keys; a device holds at least one of keys.
    inner : int
        Width within the networks that a token takes, all together.
    window : int
        The most tokens that a token attends to, and that are kept; 0 if there is no limit.
    stored : int
        Bytes of all parameters as a file has them; 0 where they follow from the width of weights.
    """

    weights: int
    whole: int
    expert: int
    experts: int
    chosen: int
    scores: int
    cache: int
    heads: int
    key_heads: int
    inner: int
    window: int = 0
    stored: int = 0

    @property
    def parameters(self) -> int:
        """Number of all parameters of the layer."""
        return self.weights + self.whole + self.experts * self.expert

    def __post_init__(self) -> None:
        least = {"weights": 1, "cache": 1, "heads": 1, "key_heads": 1}
        for name, value in vars(self).items():
            if value < least.get(name, 0):
                raise InputError(f"{name} of a layer is {value}; give {least.get(name, 0)} or more.")
            if value >= 2**40:
                raise InputError(f"{name} of a layer is {value}; give less than 2^40.")
        if self.experts > 4096:
            raise InputError(f"a layer has {self.experts} experts; give at most 4096.")
        if self.chosen > self.experts or (self.experts > 0) != (self.chosen > 0):
            raise InputError(f"A token takes {self.chosen} of {self.experts} experts of a layer; that cannot be.")


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A decoder: its layers in order, embedding and head.

    Parameters
    ----------
    name : str
    hidden : int
        Numbers of a token between layers.
    shapes : tuple of LayerShape
        Layers that differ.
    order : (L,) integers
        Shape of each layer.
    embedding, head : int
        Parameters before the layers, and behind them.
    logits : int
        Weights of the head that each token is multiplied with.
    tied : int
        Parameters of the embedding that the head uses as well; a stage with both holds them once.
    stored : (int, int)
        Bytes of embedding and of head as a file has them; 0 where they follow from the width of weights.

    Raises
    ------
    InputError
        If there is no layer, or a size is out of its range.
    """

    name: str
    hidden: int
    shapes: tuple[LayerShape, ...]
    order: Annotated[IntArray, Ints("L")]
    embedding: int
    head: int
    logits: int
    tied: int
    stored: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        if not 1 <= len(self.order) <= 4096 or not self.shapes:
            raise InputError(f"{self.name}: there are {len(self.order)} layers; give 1 to 4096.")
        if len(self.shapes) > 256:
            raise InputError(f"{self.name}: {len(self.shapes)} shapes of layers are too many; give at most 256.")
        if min(self.order) < 0 or max(self.order) >= len(self.shapes):
            raise InputError(f"{self.name}: shapes of layers run from 0 to {len(self.shapes) - 1}.")
        for name in ("hidden", "embedding", "head", "logits", "tied"):
            if not 0 <= getattr(self, name) < 2**50:
                raise InputError(f"{self.name}: {name} is {getattr(self, name)}; give a number from 0 to 2^50.")
        for size in self.stored:
            if not 0 <= size < 2**50:
                raise InputError(f"{self.name}: stored is {size}; give a number from 0 to 2^50.")
        if self.parameters >= 2**50:
            raise InputError(f"{self.name}: it has {self.parameters} parameters; give less than 2^50.")
        if self.tied > min(self.embedding, self.head):
            raise InputError(f"{self.name}: {self.tied} shared parameters are more than embedding or head have.")

    @property
    def layers(self) -> int:
        """Number of layers."""
        return len(self.order)

    @property
    def parameters(self) -> int:
        """Number of parameters; a table shared by embedding and head counts once."""
        counts = [shape.parameters for shape in self.shapes]
        return sum(counts[shape] for shape in self.order.tolist()) + self.embedding + self.head - self.tied

    def check_degree(self, degree: int) -> None:
        """Refuse a tensor degree that does not divide the heads of each layer."""
        heads = sorted({shape.heads for shape in self.shapes})
        for count in heads:
            if count % degree:
                divisors = ", ".join(str(t) for t in (1, 2, 4, 8, 16, 32, 64) if all(h % t == 0 for h in heads))
                raise InputError(f"degree {degree} does not divide {count} heads; give {divisors}.")
