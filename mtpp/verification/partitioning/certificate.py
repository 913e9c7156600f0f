"""Check the certificate of a partition: costs from the equations of the paper, bounds by one checker a method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from fractions import Fraction

from instances.json_files import Value
from instances.partitioning.problem import Instance
from instances.partitioning.stated import Certificate, Stated, certificate_from_document
from mtpp.verification.clock import Clock, Limits
from mtpp.verification.faults import faults_of_copies, faults_of_cost, faults_of_sum, unequal
from mtpp.verification.partitioning.checkers import Task
from mtpp.verification.partitioning.costs import bottleneck, find_fault
from mtpp.verification.partitioning.exact_instance import ExactInstance
from mtpp.verification.partitioning.groups import merge_groups, shared_blocks
from mtpp.verification.partitioning.ideals import fits_nowhere
from mtpp.verification.partitioning.impossible import check_impossible
from mtpp.verification.partitioning.rules import find_breach
from mtpp.verification.partitioning.stages import faults_of_stages
from mtpp.verification.verdict import Verdict, check_claims

__all__ = ["verify_partition"]


def verify_partition(document: Value, limits: Limits) -> Verdict:
    """Check everything in a certificate that can be checked.

    Raises
    ------
    InputError
        If this is no certificate, or the parameters of a bound are not of the kind that its method needs.
    """
    certificate = certificate_from_document(document)
    instance, stated = certificate.instance, certificate.partition
    exact, rules = ExactInstance.of(instance), instance.constraints
    cost, faults = None, []
    if certificate.graph_hash != instance.graph.content_hash:
        faults.append(unequal("instance.graph_hash", certificate.graph_hash, instance.graph.content_hash))
    if stated is not None:
        fault = find_fault(exact, stated.block, stated.order)
        fault = fault or find_breach(exact, rules, instance.graph.names, stated.block, stated.order)
        if fault is None:
            cost = bottleneck(exact, stated.block, stated.order)
            faults += _faults_of_copies(certificate, exact, stated, cost)
        else:
            faults.append(f"partition: {fault}")
    group = shared_blocks(exact, rules)
    task = Task(
        exact=merge_groups(exact, group),
        group=group,
        one_block=_one_block(instance, exact),
        rules=rules,
        clock=Clock(limits.seconds),
    )
    checks, false = check_claims(certificate, task.check, limits.seconds)
    faults += false
    no_answer = None
    if certificate.impossible is not None:
        no_answer = check_impossible(
            instance, task.exact, group, certificate.impossible, lambda: fits_nowhere(task.exact, task.clock)
        )
        faults += [f"impossible: {no_answer.fault}"] if no_answer.fault else []
        faults += [] if stated is None else ["impossible: there is a partition beside it"]
    if stated is None or cost is not None:  # else the numbers below mean nothing
        faults += faults_of_sum(certificate, cost)
    return Verdict(certificate, cost, checks, tuple(faults), no_answer=no_answer)


def _one_block(instance: Instance, exact: ExactInstance) -> Fraction | None:
    """Cost of all nodes in the first block, in some order; None if they may not be there."""
    block = [0] * exact.n
    if find_breach(exact, instance.constraints, instance.graph.names, block, exact.order) is not None:
        return None
    return bottleneck(exact, block, exact.order)


def _faults_of_copies(certificate: Certificate, exact: ExactInstance, stated: Stated, cost: Fraction) -> Iterator[str]:
    """Faults of the values that the document of the partition repeats."""
    graph, platform = certificate.instance.graph, certificate.instance.platform
    yield from faults_of_copies(asdict(stated.platform), asdict(platform), "partition.")
    if stated.constraints != certificate.instance.constraints:
        yield "partition.constraints: they are not those of the instance"
    if stated.graph_hash != graph.content_hash:
        yield unequal("partition.graph_hash", stated.graph_hash, graph.content_hash)
    stages: dict[int, list[str]] = {}
    for v in stated.order:
        stages.setdefault(stated.block[v], []).append(graph.names[v])
    if len(stated.stages) != platform.k or any(
        list(names) != stages.get(b, []) for b, names in enumerate(stated.stages)
    ):
        yield "partition.stages: the names are not those of block and order"
    yield from faults_of_stages(certificate.instance, exact, stated)
    yield from faults_of_cost("partition.bottleneck", stated.bottleneck, cost)
    yield from faults_of_cost("bottleneck", certificate.cost, cost)
