"""The verbs ``mtpp list`` and ``mtpp versions``: what there is to choose from, and on what an answer rests."""

from __future__ import annotations

from typing import Annotated

from instances.registry import find
from mtpp.cli import options
from mtpp.cli.command import command
from mtpp.cli.exit_codes import DONE
from mtpp.cli.options import LISTINGS
from mtpp.cli.printing import Printing
from mtpp.text.tables import left_aligned


@command
def list_names(*, what: Annotated[str, options.argument(metavar="|".join(LISTINGS))], printing: Printing) -> int:
    """List what there is to choose from, with one line about each."""
    rows = find(LISTINGS, what, "list")()
    printing.say(left_aligned([row[:1] for row in rows] if printing.quiet else rows))
    printing.document(lambda: [{"name": name, "about": about} for name, *about in rows])
    return DONE


@command
def show_versions(*, printing: Printing) -> int:
    """Print the versions of everything that can change an answer."""
    from mtpp.versions import versions

    packages = versions()
    printing.say(left_aligned(list(packages.items())[: 1 if printing.quiet else None]))
    printing.document(lambda: packages)
    return DONE
