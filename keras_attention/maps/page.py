"""Writes an AttentionMap as HTML: a heat table, without scripts and without anything loaded from elsewhere."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from keras_attention.maps import colours
from keras_attention.maps.labels import visible

if TYPE_CHECKING:
    from keras_attention.maps.attention_map import AttentionMap

MAX_NUMBERS = 16  # with more rows or columns the weights are told only where one points

_STYLE = """
.attention-map { color-scheme: light dark; color: CanvasText; background: Canvas; font: 14px/1.35 sans-serif; }
.attention-map h2 { font-size: 1.25em; margin: 0 0 .2em; }
.attention-map h3 { font-size: 1em; margin: 0 0 .3em; }
.attention-map .about { margin: 0 0 1em; opacity: .7; }
.attention-map .slices { display: flex; flex-wrap: wrap; gap: 1.5em; align-items: flex-start; }
.attention-map section { max-width: 100%; min-width: 0; }
.attention-map .frame { overflow: auto; max-width: 100%; max-height: 90vh; }
.attention-map table { border-collapse: separate; border-spacing: 1px; width: auto; margin: 0; font-size: 1em; }
.attention-map th { position: sticky; background: Canvas; font-weight: normal; white-space: nowrap; padding: 0 .4em; }
.attention-map thead th { top: 0; z-index: 1; vertical-align: bottom; padding: .4em .1em; }
.attention-map thead th bdi { writing-mode: vertical-rl; display: inline-block; max-height: 14em; overflow: hidden; }
.attention-map thead td { position: sticky; top: 0; left: 0; z-index: 2; background: Canvas; }
.attention-map tbody th { left: 0; text-align: end; max-width: 16em; overflow: hidden; text-overflow: ellipsis; }
.attention-map tbody td { min-width: 1.5em; height: 1.5em; padding: 0 .2em; text-align: center; color: #1a1a1a; }
.attention-map tbody td { font-size: .8em; cursor: default; box-shadow: inset 0 0 0 1px #8883; }
.attention-map tbody td.dark { color: #fff; }
.attention-map tbody td:hover { outline: 2px solid #1f6feb; }
.attention-map tbody tr:hover th { font-weight: bold; text-decoration: underline; }
.attention-map .scale { display: flex; gap: .5em; align-items: center; margin: .8em 0 0; }
.attention-map .scale i { width: 10em; height: .8em; box-shadow: inset 0 0 0 1px #8883; }
"""

_PAGE_STYLE = ":root { color-scheme: light dark; } body { margin: 1.5em; background: Canvas; }"

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def page(attention: AttentionMap) -> str:
    """A page of its own that shows the map."""
    return whole_page(attention.name, _PAGE_STYLE, fragment(attention))


def whole_page(title: str, style: str, body: str) -> str:
    """A page without scripts that loads nothing; `style` and `body` are CSS and HTML, `title` is text."""
    return _PAGE.format(title=_safe(title), style=style, body=body)


def fragment(attention: AttentionMap) -> str:
    """The map as an element to stand in a page, e.g. in a notebook."""
    about = " · ".join(bdi for text in (attention.kind, attention.layer) if (bdi := text and _bdi(text)))
    sections = "\n".join(_section(attention, title, weights) for title, weights in attention.slices())
    stops = ", ".join(f"{colour} {position:.1%}" for position, colour in colours.STOPS)
    return (
        f'<div class="attention-map">\n<style>{_style(attention)}</style>\n'
        f'<h2 dir="auto">{_bdi(attention.name)}</h2>\n<p class="about">{about}</p>\n'
        f'<div class="slices">\n{sections}\n</div>\n'
        f'<p class="scale">0 <i style="background:linear-gradient(to right, {stops})"></i> 1</p>\n</div>'
    )


def _style(attention: AttentionMap) -> str:
    """The style sheet, with one rule a column that marks its label while one points at a cell under it."""
    marks = "\n".join(
        f".attention-map table:has(tbody td:nth-child({n}):hover) thead th:nth-child({n}) {{ font-weight: bold; "
        f"text-decoration: underline; }}"
        for n in range(2, len(attention.columns) + 2)  # the first child is the row label
    )
    return f"{_STYLE}{marks}\n"


def _section(attention: AttentionMap, title: str, weights: np.ndarray) -> str:
    heading = f'<h3 dir="auto">{_bdi(title)}</h3>\n' if title else ""
    columns = [_safe(column) for column in attention.columns]
    heads = "".join(f'<th scope="col" dir="auto" title="{column}"><bdi>{column}</bdi></th>' for column in columns)
    with_numbers = max(weights.shape) <= MAX_NUMBERS
    lines = []
    for label, row in zip(attention.rows, weights, strict=True):
        label = _safe(label)
        cells = "".join(
            _cell(label, column, float(weight), with_numbers) for column, weight in zip(columns, row, strict=True)
        )
        lines.append(f'<tr><th scope="row" dir="auto" title="{label}"><bdi>{label}</bdi></th>{cells}</tr>')
    body = "\n".join(lines)
    return (
        f'<section>\n{heading}<div class="frame"><table>\n<thead><tr><td></td>{heads}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table></div>\n</section>"
    )


def _cell(row: str, column: str, weight: float, with_numbers: bool) -> str:
    """One cell; its title keeps both tokens apart from each other's direction by isolates (FSI, PDI)."""
    dark = ' class="dark"' if colours.is_dark(weight) else ""
    title = f"\u2068{row}\u2069 → \u2068{column}\u2069: {weight:.3f}"
    number = f"{weight:.2f}" if with_numbers else ""
    return f'<td{dark} style="background:{colours.css(weight)}" title="{title}">{number}</td>'


def _bdi(text: str) -> str:
    return f"<bdi>{_safe(text)}</bdi>"


def _safe(text: str) -> str:
    return escape(visible(text), quote=True)
