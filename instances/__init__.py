"""What a problem is, what an answer is, and examples of both."""

from instances.certificates import Bound, Result, Status, certify
from instances.errors import FalseCertificateError, InputError, InputWarning
from instances.graph import ComputationGraph
from instances.graph_file import read_graph, save_graph
from instances.partition import Partition
from instances.partition_file import read_partition, save_partition
from instances.problem import Instance, Platform
from instances.readers import load_graph
from instances.tensors import SharedParameter, Tensors

__all__ = [
    "Bound",
    "ComputationGraph",
    "FalseCertificateError",
    "InputError",
    "InputWarning",
    "Instance",
    "Partition",
    "Platform",
    "Result",
    "SharedParameter",
    "Status",
    "Tensors",
    "certify",
    "load_graph",
    "read_graph",
    "read_partition",
    "save_graph",
    "save_partition",
]
