"""A process that runs CP-SAT on a placement with an order: a question on stdin, an answer on stdout, both JSON.

OR-Tools and HiGHS clash in one process, so that this one imports nothing of the project, and OR-Tools where it is used
alone. Times are whole numbers.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

_Question = dict[str, Any]


class _Steps:
    """The CP-SAT model: optional intervals of nodes on devices and of transfers."""

    def __init__(self, question: _Question) -> None:
        from ortools.sat.python import cp_model

        self.question, self.model = question, cp_model.CpModel()
        self.devices, self.horizon = range(question["devices"]), question["horizon"]
        model, nodes = self.model, question["nodes"]
        self.makespan = model.new_int_var(question["least"], self.horizon, "makespan")
        self.on = [[model.new_bool_var(f"x{v},{d}") for d in self.devices] for v in range(len(nodes))]
        self.start = [
            model.new_int_var(node["head"], max(node["head"], self.horizon - node["tail"] - min(node["time"])), f"s{v}")
            for v, node in enumerate(nodes)
        ]
        self.end = [self._after(v) for v in range(len(nodes))]
        self.sent: list[Any] = []
        self._nodes()
        self._transfers()
        self._hint()
        model.minimize(self.makespan)

    def _after(self, v: int) -> Any:
        """Linear expression for the end of node v."""
        times = self.question["nodes"][v]["time"]
        return self.start[v] + sum(time * on for time, on in zip(times, self.on[v], strict=True))

    def _nodes(self) -> None:
        model, question = self.model, self.question
        for v, node in enumerate(question["nodes"]):
            model.add_exactly_one(self.on[v])
            model.add(self.makespan >= self.end[v] + node["tail"])
        for u, v in question["edges"]:
            model.add(self.start[v] >= self.end[u])
        for u, v in question["together"]:
            for d in self.devices:
                model.add(self.on[u][d] == self.on[v][d])
        for i, v in enumerate(question["rank"]):
            for d in self.devices[i + 1 :]:
                model.add(self.on[v][d] == 0)
        for d in self.devices:
            model.add_no_overlap(
                model.new_optional_fixed_size_interval_var(
                    self.start[v], node["time"][d] + node["rest"], self.on[v][d], ""
                )
                for v, node in enumerate(question["nodes"])
            )
        if question["equal"]:
            lasting = [
                model.new_fixed_size_interval_var(self.start[v], node["time"][0], "")
                for v, node in enumerate(question["nodes"])
            ]
            model.add_cumulative(lasting, [1] * len(lasting), len(self.devices))

    def _transfers(self) -> None:
        model, buses = self.model, [list[Any]() for _ in self.devices]
        for transfer in self.question["transfers"]:
            u, begin = transfer["producer"], model.new_int_var(0, self.horizon, "")
            self.sent.append(begin)
            for h in self.devices:
                targets = [d for d in transfer["targets"] if d != h]
                if not targets:
                    continue
                leaves, times = model.new_bool_var(""), [transfer["time"][h][d] for d in targets]
                longest = max(times)
                takes = model.new_int_var(0, longest, "") if min(times) < longest else longest
                for d in targets:
                    for v in transfer["readers"]:
                        model.add_bool_or(self.on[u][h].negated(), self.on[v][d].negated(), leaves)
                        together = [self.on[u][h], self.on[v][d]]
                        model.add(self.start[v] >= begin + takes).only_enforce_if(together)
                        if min(times) < longest:
                            model.add(takes >= transfer["time"][h][d]).only_enforce_if(together)
                model.add(begin >= self.end[u]).only_enforce_if(leaves)
                model.add_implication(leaves, self.on[u][h])
                rested = takes + self.question["bus_rest"]
                end = begin + rested
                buses[h].append(model.new_optional_interval_var(begin, rested, end, leaves, ""))
        for bus in buses:
            model.add_no_overlap(bus)

    def _hint(self) -> None:
        hint = self.question["hint"]
        for v, (d, start) in enumerate(zip(hint["device"], hint["start"], strict=True)):
            self.model.add_hint(self.start[v], start)
            for other in self.devices:
                self.model.add_hint(self.on[v][other], other == d)
        for begin, start in zip(self.sent, hint["sent"], strict=True):
            if start is not None:
                self.model.add_hint(begin, start)


def answer(question: _Question) -> _Question:
    """Status, bound, and devices and times of the best placement, if any; or the CP-SAT parameter that is refused."""
    from ortools.sat.python import cp_model

    solver, log = cp_model.CpSolver(), list[str]()
    solver.log_callback = log.append
    for name, value in question["parameters"].items():
        text = value if isinstance(value, str) else json.dumps(value)
        if not solver.parameters.merge_text_format(f"{name}: {text}"):
            return {"refused": f"{name}={text}"}
    steps = _Steps(question)
    status = solver.solve(steps.model)
    if status == cp_model.MODEL_INVALID:
        raise ValueError(steps.model.validate())
    reply: _Question = {"status": solver.status_name(status), "bound": solver.best_objective_bound, "device": None}
    reply["log"] = "".join(f"{line}\n" for line in log)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        device = [next(d for d, on in enumerate(row) if solver.boolean_value(on)) for row in steps.on]
        reply |= {"device": device, "start": [solver.value(start) for start in steps.start]}
        reply |= {"sent": [solver.value(begin) for begin in steps.sent], "objective": solver.objective_value}
    return reply


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a search takes it as its end
    print(json.dumps(answer(json.load(sys.stdin))))
