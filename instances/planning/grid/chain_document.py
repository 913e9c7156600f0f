"""Chains of configured layers as JSON, ``mtpp-chain/2``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from instances.planning.grid.configurations import ConfiguredChain

__all__ = ["CHAIN", "CONFIGURED_FORMAT", "chain_document"]

CONFIGURED_FORMAT = "mtpp-chain/2"
#: Members of a chain beside its layers.
CHAIN = ("name", "source", "micro_batch", "sequence", "dtype", "device", "flops")


def chain_document(chain: ConfiguredChain) -> dict[str, Any]:
    """The chain as JSON; layers of one kind have their configurations once."""
    return {
        "format": CONFIGURED_FORMAT,
        **{name: getattr(chain, name) for name in CHAIN},
        "kinds": {kind: [asdict(one) for one in layer.configurations] for kind, layer in chain.kinds.items()},
        "layers": [{"name": layer.name, "kind": layer.kind} for layer in chain.layers],
    }
