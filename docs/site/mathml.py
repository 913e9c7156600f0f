"""Equations as MathML, which browsers draw by themselves: pages need neither a script nor the network."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger
from sphinx.writers.html5 import HTML5Translator

_CONVERTER = LatexToMathML()
_LOGGER = getLogger(__name__)


def mathml(latex: str, *, is_display: bool) -> str:
    r"""Convert an equation to MathML; lines, with ``\\`` between them, are aligned at each ``&``.

    A number such as (7) behind two blanks at the end of a line stands apart.

    Raises
    ------
    LatexError
        If a command is unknown.
    """
    latex = re.sub(r"\s{2,}(\(\d+'?\)[.,]?\s*)(?=\\\\|$)", r" \\qquad \1", latex)
    if ("\\\\" in latex or "&" in latex) and r"\begin" not in latex:
        latex = rf"\begin{{aligned}}{latex}\end{{aligned}}"
    return _CONVERTER.convert_with_local_state(latex, displaystyle=is_display)


def _visit(translator: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    is_display = isinstance(node, nodes.math_block)
    try:
        # Blank lines separate equations of one directive.
        parts = re.split(r"\n\s*\n", node.astext()) if is_display else [node.astext()]
        markup = "\n".join(mathml(part, is_display=is_display) for part in parts)
    except LatexError as error:
        _LOGGER.warning("%s: %s", node.astext(), error, location=node)
        markup = translator.encode(node.astext())
    translator.body.append(f'<div class="math">{markup}</div>\n' if is_display else markup)
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Offer the renderer to Sphinx."""
    app.add_html_math_renderer("mathml", (_visit, None), (_visit, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
