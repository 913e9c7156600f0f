"""Strengthening of the models of superblocks, whose parts can be switched off one by one."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields

from instances import InputError

__all__ = ["Strengthening", "ablation"]


@dataclass(frozen=True)
class Strengthening:
    """Parts that keep every partition whose bottleneck is below that of a known one; all are on by default."""

    # Stronger rows for the tensors in the place of (9) and (10); see `mtpp_models.formulations.constraints`.
    cuts: bool = True
    # No node outside the blocks that `mtpp_models.cuts.windows` leaves to it.
    windows: bool = True
    # Nodes whose common block is too expensive stay apart; see `mtpp_models.formulations.clique_rows`.
    conflicts: bool = True
    # Edges that are too expensive to cut are contracted; see `mtpp_models.cuts.uncut_edges`.
    joins: bool = True
    # The known bottleneck is an upper bound of the variable.
    cutoff: bool = True

    def __str__(self) -> str:
        """Text that `of` reads: the parts that are on or, if these are most, all but the others."""
        on = [name for name, value in zip(_NAMES, astuple(self), strict=True) if value]
        off = [name for name in _NAMES if name not in on]
        return "+".join(on) if len(on) < len(off) else "-".join(["all", *off])

    @classmethod
    def of(cls, text: str) -> Strengthening:
        """Read "all", "all-joins" or "cuts+windows".

        Raises
        ------
        InputError
            If a part is unknown.

        Examples
        --------
        >>> str(Strengthening.of("all-joins-cuts")), Strengthening.of("cuts").windows
        ('all-cuts-joins', False)
        """
        base, *off = text.split("-")
        on = _NAMES if base == "all" else tuple(base.split("+"))
        for name in (*on, *off):
            if name not in _NAMES:
                raise InputError(f"There is no part {name!r}; use all, all-NAME or NAME+NAME of {', '.join(_NAMES)}.")
        return cls(**{name: name in on and name not in off for name in _NAMES})


_NAMES = tuple(field.name for field in fields(Strengthening))


def ablation(name: str) -> tuple[str, ...]:
    """Names of a model without any part, with one, with all but one and with all.

    Examples
    --------
    >>> ablation("exact")[:2], ablation("exact")[-2:]
    (('exact', 'exact+cuts'), ('exact+all-cutoff', 'exact+all'))
    """
    all_but = (f"{name}+all-{part}" for part in _NAMES)
    return (name, *(f"{name}+{part}" for part in _NAMES), *all_but, f"{name}+all")
