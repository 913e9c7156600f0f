"""Problems and their answers as records, with files, readers and example networks."""

from instances.system.import_guard import check_siblings

check_siblings()

from instances.devices import Platform
from instances.errors import FalseCertificateError, InputError, InputWarning
from instances.graph.graph import ComputationGraph, read_graph, save_graph
from instances.graph.tensors import SharedParameter, Tensors
from instances.partitioning.partition import Partition
from instances.partitioning.partition_file import read_partition, save_partition
from instances.partitioning.problem import Instance
from instances.readers import load_graph
from instances.results import Bound, Result, Status, combine

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
    "combine",
    "load_graph",
    "read_graph",
    "read_partition",
    "save_graph",
    "save_partition",
]
