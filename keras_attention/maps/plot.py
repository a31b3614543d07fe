"""Draws an AttentionMap as a picture with matplotlib, without its pyplot state.

All lengths are in inches, and every text is measured before anything is placed: labels never overlap.
"""

from __future__ import annotations

import io
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keras_attention.maps import colours
from keras_attention.maps.files import write_atomically
from keras_attention.maps.fonts import prepare
from keras_attention.maps.labels import shorten, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from keras_attention.maps.attention_map import AttentionMap

SUFFIXES = (".png", ".svg")
MAX_PANELS = 64
MAX_LABELS = 150  # on one side; of more, every second, third … is written
_LABEL_WIDTH, _TITLE_WIDTH = 24, 90  # in characters
_PAGE_WIDTH = 16.0  # panels go into a new line beyond it
_MARGIN, _GAP, _BAR = 0.15, 0.3, 0.14
_TITLE_SIZE, _PANEL_TITLE_SIZE, _BAR_SIZE = 12.0, 10.0, 8.0  # points
_INK, _GRID = "#1a1a1a", "#d9d9d9"


@dataclass(frozen=True)
class _Texts:
    """What is written, ready to draw, and the sizes that follow from it."""

    title: str
    panels: list[str]
    rows: list[str]
    columns: list[str]
    families: list[str]
    row_step: int
    column_step: int


@dataclass(frozen=True)
class _Layout:
    """Lengths of the picture in inches."""

    cell_width: float
    cell_height: float
    font_size: float  # points
    rotation: int  # degrees, of the column labels
    left: float  # row labels
    above: float  # column labels
    panel_title: float
    title: float
    slot: float  # width of one panel with its title
    heat_width: float
    heat_height: float
    across: int  # panels in a line
    down: int  # lines of panels
    width: float
    height: float


def draw(
    attention: AttentionMap,
    path: str | os.PathLike | None,
    *,
    title: str | None,
    dpi: float,
    weights_in_cells: bool | None,
) -> Figure | Path:
    """Draws a map; see `AttentionMap.plot`."""
    suffix = None if path is None else Path(path).suffix.lower()
    if suffix is not None and suffix not in SUFFIXES:
        raise ValueError(
            f"The picture {str(path)!r} ends in {suffix!r}. Expected .png or .svg. Name it e.g. attention.png."
        )
    if not (math.isfinite(dpi) and dpi > 0):
        raise ValueError(f"`dpi` is {dpi}. Expected pixels per inch, above 0. Pass e.g. 150.")
    panels = math.prod(attention.weights.shape[:-2])
    if panels > MAX_PANELS:
        raise ValueError(
            f"The map has {panels} slices along {attention.axes}. Expected at most {MAX_PANELS} in one picture. "
            f"Select some first, e.g. `.select({attention.axes[-1]}='mean')`."
        )
    figure = _figure(attention, title, dpi, weights_in_cells)
    if path is None:
        return figure
    content = io.BytesIO()
    metadata = {"Date": None} if suffix == ".svg" else None
    figure.savefig(content, format=suffix[1:], dpi=dpi, facecolor="white", metadata=metadata)
    return write_atomically(path, content.getvalue())


def _figure(attention: AttentionMap, title: str | None, dpi: float, weights_in_cells: bool | None) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    texts = _texts(attention, attention.name if title is None else title)
    figure = Figure(dpi=dpi, facecolor="white")
    FigureCanvasAgg(figure)
    layout = _layout(attention, texts, figure, bool(weights_in_cells))
    figure.set_size_inches(layout.width, layout.height)
    if weights_in_cells is None:
        weights_in_cells = len(texts.panels) == 1 and min(layout.cell_width, layout.cell_height) >= 0.4
    for index, (_, weights) in enumerate(attention.slices()):
        line, place = divmod(index, layout.across)
        axes = figure.add_axes(_rectangle(layout, line, place))
        _heat(axes, weights)
        _label(axes, texts, layout, with_rows=place == 0)
        if texts.panels[index]:
            size = {"fontsize": _PANEL_TITLE_SIZE, "pad": 72 * layout.above + 3}
            axes.set_title(texts.panels[index], y=1.0, color=_INK, **size, **_plain(texts))
        if weights_in_cells:
            _write_weights(axes, weights, layout)
    _colour_bar(figure, layout)
    if texts.title:
        at = 1 - _MARGIN / layout.height
        figure.text(0.5, at, texts.title, ha="center", va="top", color=_INK, fontsize=_TITLE_SIZE, **_plain(texts))
    return figure


def _plain(texts: _Texts) -> dict:
    """Text properties that show every character as itself."""
    return {"parse_math": False, "usetex": False, "fontfamily": texts.families}


def _texts(attention: AttentionMap, title: str) -> _Texts:
    row_step = math.ceil(len(attention.rows) / MAX_LABELS) or 1
    column_step = math.ceil(len(attention.columns) / MAX_LABELS) or 1
    rows, columns = attention.rows[::row_step], attention.columns[::column_step]
    panels = [panel for panel, _ in attention.slices()]
    widths = [_TITLE_WIDTH] + [_LABEL_WIDTH] * (len(panels) + len(rows) + len(columns))
    shown = [
        shorten(visible(text), width) for text, width in zip((title, *panels, *rows, *columns), widths, strict=True)
    ]
    ready, families = prepare(shown, widths)
    head, tail = 1 + len(panels), 1 + len(panels) + len(rows)
    return _Texts(ready[0], ready[1:head], ready[head:tail], ready[tail:], families, row_step, column_step)


def _layout(attention: AttentionMap, texts: _Texts, figure: Figure, roomy: bool) -> _Layout:
    rows, columns = (max(1, length) for length in attention.weights.shape[-2:])
    cell_height, cell_width = _cell_sizes(rows, columns, len(texts.panels), roomy)
    step_height, step_width = cell_height * texts.row_step, cell_width * texts.column_step
    font_size = min(11.0, 72 * 0.6 * min(step_height, step_width))
    row_sizes = _measure(figure, texts.rows, font_size, texts)
    column_sizes = _measure(figure, texts.columns, font_size, texts)
    widest = max((width for width, _ in column_sizes), default=0.0)
    rotation = 90 if widest > 0.9 * step_width else 0
    above = 0.08 + (widest if rotation else max((height for _, height in column_sizes), default=0.0))
    left = 0.1 + max((width for width, _ in row_sizes), default=0.0)
    title_sizes = _measure(figure, texts.panels, _PANEL_TITLE_SIZE, texts)
    panel_title = 0.08 + max(height for _, height in title_sizes) if any(texts.panels) else 0.0
    heat_width, heat_height = columns * cell_width, rows * cell_height
    slot = max(heat_width, *(width for width, _ in title_sizes))
    across = _panels_across(attention.weights.shape[:-2], slot, left)
    down = math.ceil(len(texts.panels) / across)
    ((title_width, title_height),) = _measure(figure, [texts.title], _TITLE_SIZE, texts)
    title = 0.12 + title_height if texts.title else 0.0
    width = _MARGIN + left + across * (slot + _GAP) + _BAR + 0.35 + _MARGIN
    height = 2 * _MARGIN + title + down * (panel_title + above + heat_height) + (down - 1) * _GAP
    return _Layout(
        cell_width, cell_height, font_size, rotation, left, above, panel_title, title, slot, heat_width, heat_height,
        across, down, max(width, title_width + 2 * _MARGIN), max(height, title + above + 1.3),
    )  # fmt: skip


def _cell_sizes(rows: int, columns: int, panels: int, roomy: bool) -> tuple[float, float]:
    """Height and width of a cell: smaller the more there are, and never longer than twice its other side."""
    whole, most = (7.5, 0.5) if panels == 1 else (5.0, 0.36)
    least = 0.34 if roomy else 0.15
    height, width = (
        max(min(max(whole / length, least), most), 0.02) if length <= MAX_LABELS else least * MAX_LABELS / length
        for length in (rows, columns)
    )
    return min(height, 2 * width), min(width, 2 * height)


def _panels_across(leading: tuple[int, ...], slot: float, left: float) -> int:
    """Panels in a line: all of the last axis if there are two and they fit, else lines of nearly equal length."""
    panels = math.prod(leading)
    fit = max(1, min(panels, int((_PAGE_WIDTH - left) / (slot + _GAP))))
    if len(leading) > 1 and leading[-1] <= fit:
        return leading[-1]
    return math.ceil(panels / math.ceil(panels / fit))


def _measure(figure: Figure, strings: list[str], size: float, texts: _Texts) -> list[tuple[float, float]]:
    """Widths and heights of texts as they will be drawn."""
    from matplotlib.text import Text

    renderer = figure.canvas.get_renderer()
    sizes = []
    for string in strings:
        text = Text(0, 0, string, figure=figure, fontsize=size, **_plain(texts))
        extent = text.get_window_extent(renderer, dpi=figure.dpi)
        sizes.append((extent.width / figure.dpi, extent.height / figure.dpi))
    return sizes


def _rectangle(layout: _Layout, line: int, place: int) -> tuple[float, float, float, float]:
    """Where the heat of one panel stands, in shares of the figure: left, bottom, width, height."""
    block = layout.panel_title + layout.above + layout.heat_height
    left = _MARGIN + layout.left + place * (layout.slot + _GAP) + (layout.slot - layout.heat_width) / 2
    bottom = layout.height - _MARGIN - layout.title - (line + 1) * block - line * _GAP
    return (
        left / layout.width,
        bottom / layout.height,
        layout.heat_width / layout.width,
        layout.heat_height / layout.height,
    )


def _colour_map():
    from matplotlib.colors import ListedColormap

    return ListedColormap(colours.TABLE / 255.0, name="attention")


def _heat(axes: Axes, weights: np.ndarray) -> None:
    rows, columns = (max(1, length) for length in weights.shape)
    if weights.size:
        look = {"vmin": 0.0, "vmax": 1.0, "interpolation": "nearest", "aspect": "auto"}
        axes.imshow(weights, cmap=_colour_map(), origin="upper", **look)
    axes.set(facecolor="white", xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5))
    for spine in axes.spines.values():
        spine.set(visible=True, edgecolor="#808080", linewidth=0.6)


def _label(axes: Axes, texts: _Texts, layout: _Layout, *, with_rows: bool) -> None:
    axes.xaxis.tick_top()
    plain = {"color": _INK, "fontsize": layout.font_size, **_plain(texts)}
    turned = {"rotation": layout.rotation, "ha": "center", "va": "bottom"}
    axes.set_xticks(np.arange(len(texts.columns)) * texts.column_step, texts.columns, **turned, **plain)
    rows = texts.rows if with_rows else [""] * len(texts.rows)
    axes.set_yticks(np.arange(len(rows)) * texts.row_step, rows, ha="right", va="center", **plain)
    axes.tick_params(which="both", length=0, pad=3, labeltop=True, labelbottom=False, labelleft=True, labelright=False)
    axes.grid(False, which="both")
    if min(layout.cell_width, layout.cell_height) >= 0.12:
        columns, rows = (round(abs(high - low)) for low, high in (axes.get_xlim(), axes.get_ylim()))
        lines = {"colors": _GRID, "linewidth": 0.4}
        axes.vlines(np.arange(1, columns) - 0.5, -0.5, rows - 0.5, **lines)
        axes.hlines(np.arange(1, rows) - 0.5, -0.5, columns - 0.5, **lines)


def _write_weights(axes: Axes, weights: np.ndarray, layout: _Layout) -> None:
    size = min(9.0, 72 * 0.3 * layout.cell_width, 72 * 0.6 * layout.cell_height)
    for (row, column), weight in np.ndenumerate(weights):
        ink = "white" if colours.is_dark(weight) else _INK
        axes.text(
            column, row, f"{weight:.2f}", ha="center", va="center", color=ink, fontsize=size, fontfamily="DejaVu Sans"
        )


def _colour_bar(figure: Figure, layout: _Layout) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    long = min(2.6, max(0.9, layout.down * layout.heat_height))
    top = layout.height - _MARGIN - layout.title - layout.panel_title - layout.above
    left = _MARGIN + layout.left + layout.across * (layout.slot + _GAP)
    place = (left / layout.width, (top - long) / layout.height, _BAR / layout.width, long / layout.height)
    axes = figure.add_axes(place, label="weight")
    bar = figure.colorbar(ScalarMappable(Normalize(0.0, 1.0), _colour_map()), cax=axes)
    bar.set_ticks([0.0, 0.5, 1.0], labels=["0", "0.5", "1"])
    axes.tick_params(length=2, labelsize=_BAR_SIZE, colors=_INK, labelfontfamily="DejaVu Sans")
    bar.outline.set(edgecolor="#808080", linewidth=0.6)
