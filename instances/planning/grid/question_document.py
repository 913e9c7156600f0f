"""Questions of training in a grid as JSON, and chains of configured layers, ``mtpp-chain/2``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Protocol

from instances.json_files import finite_or_none
from instances.planning.grid.configurations import ConfiguredChain

__all__ = ["CHAIN", "CONFIGURED_FORMAT", "chain_document", "question_document"]

CONFIGURED_FORMAT = "mtpp-chain/2"
#: Members of a chain beside its layers.
CHAIN = ("name", "source", "micro_batch", "sequence", "dtype", "device", "flops")


class _Question(Protocol):
    """A question of training in a grid."""

    @property
    def chains(self) -> tuple[ConfiguredChain, ...]: ...
    @property
    def servers(self) -> Any: ...
    @property
    def global_batch(self) -> int: ...
    @property
    def memory(self) -> float: ...
    @property
    def state_bytes(self) -> Any: ...
    @property
    def update_time(self) -> float: ...
    @property
    def zero(self) -> tuple[int, ...]: ...
    @property
    def modes(self) -> tuple[str, ...]: ...
    @property
    def fixed(self) -> Any: ...
    @property
    def full_duplex(self) -> bool: ...


def chain_document(chain: ConfiguredChain) -> dict[str, Any]:
    """The chain as JSON; layers of one kind have their configurations once."""
    kinds = {layer.kind: layer for layer in chain.layers}
    return {
        "format": CONFIGURED_FORMAT,
        **{name: getattr(chain, name) for name in CHAIN},
        "kinds": {kind: [asdict(one) for one in layer.configurations] for kind, layer in kinds.items()},
        "layers": [{"name": layer.name, "kind": layer.kind} for layer in chain.layers],
    }


def question_document(question: _Question) -> dict[str, Any]:
    """The question as a member of a plan file; no limit of memory is null."""
    return {
        "chains": [chain_document(chain) for chain in question.chains],
        "servers": asdict(question.servers),
        "global_batch": question.global_batch,
        "memory": finite_or_none(question.memory),
        "state_bytes": asdict(question.state_bytes),
        "update_time": question.update_time,
        "zero": list(question.zero),
        "modes": list(question.modes),
        "fixed": asdict(question.fixed),
        "full_duplex": question.full_duplex,
    }
