"""Statements of the paper on Placeto and expectations, compared with measurements."""

from __future__ import annotations

from experiments.studies.claim import PaperClaim
from experiments.studies.placeto.budget import ABLATED, ABLATED_DEVICES
from experiments.studies.placeto.measured import Measured, number

__all__ = ["claims"]

_PAPER, _OURS = "the paper", "this project"

#: Results of annealing on the same graphs with the simulations of the policy, and of *greedy*.
_Beside = tuple[float | None, float | None]


def claims(measured: Measured) -> list[PaperClaim]:
    """All claims, family by family."""
    stated = [
        claim for family in measured.families for claim in (*_unseen(measured, family), *_alone(measured, family))
    ]
    return stated + (_ablations(measured) if ABLATED in measured.families else [])


def _unseen(measured: Measured, family: str) -> list[PaperClaim]:
    """Claims on graphs that a policy for the family has not seen."""

    def fast(name: str) -> float | None:
        return measured.value(family, "fast", name)

    rivals = {name: measured.value(family, "rivals", name) for name in ("single", "metis", "heft", "greedy")}
    zero_shot, sampled = fast("zero-shot"), fast("sampled")
    beside = (fast("anneal, as zero-shot"), rivals["greedy"])
    longer = (fast("anneal, as sampled"), rivals["greedy"])
    long = measured.value(family, "rivals", "anneal, long")
    low, high = measured.orders(family)
    text = f"{family}: zero-shot, the slowest traversal order is within 10 % of the fastest"
    equal = "annealing at equal simulations"
    return [
        PaperClaim(_PAPER, text, high < 1.1 * low, f"{high:.3f}, {1.1 * low:.3f}", beside),
        *(_less(_OURS, f"{family}: zero-shot beats {name}", zero_shot, rivals[name], beside) for name in rivals),
        _less(_OURS, f"{family}: zero-shot beats {equal}", zero_shot, beside[0], beside),
        _less(_OURS, f"{family}: sampled beats {equal}", sampled, longer[0], longer),
        _less(_OURS, f"{family}: sampled beats long annealing", sampled, long, longer),
    ]


def _alone(measured: Measured, family: str) -> list[PaperClaim]:
    """Claims on the graphs that policies and planners were also trained for one by one."""
    graphs = measured.graphs(family)

    def value(what: str, name: str) -> float | None:
        return measured.value(family, what, name, graphs)

    zero_shot, optimised, greedy = value("fast", "zero-shot"), value("optimised", "best"), value("rivals", "greedy")
    beside, longer = (value("fast", "anneal, as zero-shot"), greedy), (value("optimised", "anneal, as best"), greedy)
    planned, random = value("planner", "zero-shot"), value("rivals", "random, mean")
    text = f"{family}: zero-shot is within 5 % of Placeto optimised"
    return [
        *(
            _less(_PAPER, f"{family}: Placeto optimised beats {name}", optimised, value("rivals", name), longer)
            for name in ("single", "scotch", "expert")
        ),
        _less(
            _PAPER, f"{family}: Placeto optimised beats planner optimised", optimised, value("planner", "best"), longer
        ),
        _less(_PAPER, text, zero_shot, _times(1.05, optimised), beside),
        _less(_PAPER, f"{family}: zero-shot beats planner zero-shot", zero_shot, planned, beside),
        _less(
            _PAPER,
            f"{family}: planner zero-shot is at most 10 % better than random",
            _times(0.9, random),
            planned,
            beside,
        ),
    ]


def _ablations(measured: Measured) -> list[PaperClaim]:
    """Claims on designs after few updates, by the ends of episodes, since most episodes pass a better placement."""
    greedy = measured.value(ABLATED, "fast", f"k = {ABLATED_DEVICES}: greedy")
    stated = []
    for better, worse, text in (
        ("placeto", "placeto, partitioner", "the full policy beats the partitioner"),
        ("placeto, partitioner", "placeto, aggregator", "the partitioner beats the aggregator"),
        ("placeto", "placeto, terminal reward", "rewards for steps beat a terminal one"),
    ):
        a, b = measured.ablation(better, "last"), measured.ablation(worse, "last")
        stated.append(_less(_PAPER, f"ablation: {text}", a, b, (measured.ablation(better, "anneal"), greedy)))
    return stated


def _less(source: str, text: str, a: float | None, b: float | None, beside: _Beside) -> PaperClaim:
    """A claim that holds if the first number is less than the second."""
    holds = None if a is None or b is None else a < b
    return PaperClaim(source, text, holds, f"{number(a)}, {number(b)}", beside)


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value
