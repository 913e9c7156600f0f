"""Learned search for partitions: policies that propose orders, trained on some graphs and used on others.

- `block_filling`, `sweeps`: how an order comes about, given weights
- `policies`: search with a trained policy; `training`: REINFORCE
"""

from __future__ import annotations

from heuristics.learned.policies import Weights, learned_search, shipped
from heuristics.learned.training import OrderTraining, regal_instances, train_intervals, train_orders

__all__ = [
    "OrderTraining",
    "Weights",
    "learned_search",
    "regal_instances",
    "shipped",
    "train_intervals",
    "train_orders",
]
