"""AttentionMap: what a model looked at, as an array with labels."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from keras_attention.maps import page, plot, text
from keras_attention.maps.files import write_atomically
from keras_attention.maps.labels import as_labels

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

_TOLERANCE = 1e-3  # what rounding in half precision may add to a weight of 1
_FIELDS = ("name", "layer", "kind", "axes", "rows", "columns", "weights")


@dataclass(frozen=True, eq=False, repr=False)
class AttentionMap:
    """Attention weights with the labels of both sides: `weights[..., row, column]` is how much row looks at column.

    Args:
        name: str. What the map shows, e.g. "decoder".
        layer: str. The layer the weights come from.
        kind: str. The mechanism, e.g. "luong_general".
        weights: float (..., R, C), in [0, 1]; stored as a read-only float32 copy.
        rows: sequence of str, length R. Labels of what asks, e.g. target tokens.
        columns: sequence of str, length C. Labels of what is looked at, e.g. source tokens.
        axes: tuple of str. Names of the leading axes of `weights`, e.g. ("head",).

    Raises:
        TypeError: labels or axes that are not str, weights that are not numbers.
        ValueError: weights outside [0, 1], or counts of labels or axes that do not fit them.

    Example:
        >>> from keras_attention.maps import AttentionMap
        >>> seen = AttentionMap("decoder", "attention", "dot", [[0.9, 0.1], [0.2, 0.8]], ["le", "chat"], ["the", "cat"])
        >>> seen.links()
        [(0, 0), (1, 1)]
    """

    name: str
    layer: str
    kind: str
    weights: np.ndarray
    rows: Sequence[str]
    columns: Sequence[str]
    axes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field in ("name", "layer", "kind"):
            if not isinstance(value := getattr(self, field), str):
                raise TypeError(f"`{field}` is {value!r}, a {type(value).__name__}. Expected a str. Pass its name.")
        weights = _checked_weights(self.weights)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "rows", as_labels(self.rows, weights.shape[-2], "rows"))
        object.__setattr__(self, "columns", as_labels(self.columns, weights.shape[-1], "columns"))
        object.__setattr__(self, "axes", _checked_axes(self.axes, weights.shape[:-2]))

    def __repr__(self) -> str:
        axes = f", axes={self.axes}" if self.axes else ""
        return f"AttentionMap({self.name!r}, layer={self.layer!r}, kind={self.kind!r}, {self.weights.shape}{axes})"

    def select(self, **axes: int | str) -> AttentionMap:
        """Picks one index, or the mean, along named leading axes.

        Args:
            **axes: int or "mean", by the name of the axis: `select(head=2)`, `select(head="mean", hop=-1)`.

        Returns:
            An AttentionMap without these axes; its name tells what was picked, e.g. `decoder[head=2]`.

        Raises:
            TypeError: the index is neither an int nor a str.
            ValueError: there is no such axis, or the index lies outside it.
        """
        for axis in axes:
            if axis not in self.axes:
                known = ", ".join(self.axes) or "none"
                raise ValueError(
                    f"This map has no axis {axis!r}. Expected one of its axes: {known}. Select along these."
                )
        if not axes:
            return self
        weights = self.weights
        for position in reversed(range(len(self.axes))):
            axis = self.axes[position]
            if axis in axes:
                weights = _take(weights, position, axis, axes[axis])
        picked = ", ".join(f"{axis}={index}" for axis, index in axes.items())
        left = tuple(axis for axis in self.axes if axis not in axes)
        return replace(self, name=f"{self.name}[{picked}]", weights=weights, axes=left)

    def slices(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yields each (R, C) slice with its title, e.g. `head 0`; the title of a map without leading axes is empty."""
        for index in np.ndindex(self.weights.shape[:-2]):
            yield ", ".join(f"{axis} {i}" for axis, i in zip(self.axes, index, strict=True)), self.weights[index]

    def links(self, threshold: float | None = None) -> list[tuple[int, int]]:
        """Alignment links; over leading axes, those of the mean.

        Args:
            threshold: float in [0, 1]. Every pair with at least this weight is a link. Default: each row links to its
                heaviest column (the first of equals), and a row without any weight to none.

        Returns:
            Pairs (row, column), in order of row and column.

        Raises:
            ValueError: `threshold` is outside [0, 1].
        """
        weights = _mean(self.weights, tuple(range(len(self.axes))))
        if threshold is None:
            return [(row, int(seen.argmax())) for row, seen in enumerate(weights) if seen.any()]
        if not 0 <= threshold <= 1:
            raise ValueError(
                f"`threshold` is {threshold}. Expected a weight from 0 to 1. Pass e.g. 0.5, or leave it out."
            )
        return [(int(row), int(column)) for row, column in np.argwhere(weights >= np.float32(threshold))]

    def plot(
        self,
        path: str | os.PathLike | None = None,
        *,
        title: str | None = None,
        dpi: float = 150,
        weights_in_cells: bool | None = None,
    ) -> Figure | Path:
        """Draws the map, white for 0 to deep red for 1, one panel per slice; needs matplotlib.

        Args:
            path: path ending in .png or .svg, written in one piece.
            title: str. Default: the name of the map; "" for none.
            dpi: float > 0. Pixels per inch.
            weights_in_cells: bool. Also print the numbers; default: where they fit.

        Returns:
            The matplotlib Figure without `path`, else the path.

        Raises:
            OSError: the file cannot be written.
            ValueError: another suffix, a bad `dpi`, or more slices than one picture holds.
        """
        return plot.draw(self, path, title=title, dpi=dpi, weights_in_cells=weights_in_cells)

    def html(self, path: str | os.PathLike | None = None) -> str:
        """Writes the map as a page of its own (no script, nothing loaded); pointing at a cell shows its weight.

        Args:
            path: path of the file to write, in one piece and in UTF-8; default: none.

        Returns:
            The page.

        Raises:
            OSError: the file cannot be written.
        """
        whole = page.page(self)
        if path is not None:
            write_atomically(path, whole.encode("utf-8"))
        return whole

    def text(self, *, width: int | None = None, color: bool | None = None) -> str:
        """Writes the map for a terminal, with shades; columns that do not fit go into further blocks.

        Args:
            width: int. Cells in a line. Default: the width of the terminal, 80 where there is none.
            color: bool. Red backgrounds (256 colours) in place of shades. Default: only if standard output is a
                terminal and the environment has no NO_COLOR.

        Returns:
            Lines without trailing spaces, joined by newlines.

        Raises:
            ValueError: `width` is less than 20.
        """
        return text.draw(self, width=width, color=color)

    def to_dict(self) -> dict:
        """The map in JSON types. Weights are written as short as float32 allows, and come back exactly."""
        short = self.weights.astype("U32").astype(np.float64)
        exact = np.where(short.astype(np.float32) == self.weights, short, self.weights)
        labels = {"axes": list(self.axes), "rows": list(self.rows), "columns": list(self.columns)}
        return {"name": self.name, "layer": self.layer, "kind": self.kind, **labels, "weights": exact.tolist()}

    @classmethod
    def from_dict(cls, values: dict) -> AttentionMap:
        """Makes the map again that `to_dict` wrote.

        Raises:
            ValueError: a key is missing or unknown, or a value would not make a map.
        """
        wrong = sorted(set(values) ^ set(_FIELDS))
        if wrong:
            raise ValueError(
                f"The keys {wrong} are missing from the map or unknown. Expected exactly {list(_FIELDS)}. "
                f"Pass what `to_dict` returned."
            )
        weights = values["weights"]
        if not values["rows"]:  # JSON keeps no lengths behind an empty list
            leading = np.shape(weights)[: len(values["axes"])]
            weights = np.zeros((*leading, 0, len(values["columns"])))
        return cls(**{**values, "weights": weights})

    def _repr_html_(self) -> str:
        return page.fragment(self)


def _checked_weights(weights: np.ndarray) -> np.ndarray:
    try:
        checked = np.array(weights, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`weights` is no array of numbers ({error}). Expected float (..., rows, columns). "
            f"Pass a NumPy array, or nested lists of equal lengths."
        ) from error
    if checked.ndim < 2 or 0 in checked.shape[:-2]:
        raise ValueError(
            f"`weights` has the shape {checked.shape}. Expected (..., rows, columns), no leading axis of length 0. "
            f"Add the missing axis, e.g. `weights[None, :]` for one row."
        )
    bad = checked[~((checked >= 0) & (checked <= 1 + _TOLERANCE))]
    if bad.size:
        raise ValueError(
            f"`weights` holds {bad.size} values outside [0, 1], e.g. {bad[0]}. Expected finite weights from 0 to 1. "
            f"Pass the weights after the softmax, not the scores, and before dropout."
        )
    checked.setflags(write=False)
    return checked


def _checked_axes(axes: tuple[str, ...], leading: tuple[int, ...]) -> tuple[str, ...]:
    if isinstance(axes, str) or not all(isinstance(axis, str) for axis in axes):
        raise TypeError(f'`axes` is {axes!r}. Expected a tuple of str. Pass e.g. `axes=("head",)`.')
    axes = tuple(axes)
    if len(axes) != len(leading) or len(set(axes)) != len(axes):
        raise ValueError(
            f"`axes` is {axes} for weights with leading axes of lengths {leading}. Expected one name each, all "
            f'different. Name the axes before rows and columns, e.g. `axes=("head",)`.'
        )
    return axes


def _mean(weights: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    return weights.mean(axis=axis, dtype=np.float64).astype(np.float32)


def _take(weights: np.ndarray, position: int, axis: str, index: int | str) -> np.ndarray:
    length = weights.shape[position]
    mend = f"Pass `{axis}=0`, or `{axis}='mean'` for all of them."
    if isinstance(index, str):
        if index != "mean":
            raise ValueError(f"`{axis}` is {index!r}. Expected an int or 'mean'. {mend}")
        return _mean(weights, position)
    if isinstance(index, bool) or not hasattr(index, "__index__"):
        raise TypeError(f"`{axis}` is {index!r}, a {type(index).__name__}. Expected an int or 'mean'. {mend}")
    if not -length <= index < length:
        raise ValueError(f"`{axis}` is {index}. Expected {-length} to {length - 1}. {mend}")
    return weights.take(index, axis=position)
