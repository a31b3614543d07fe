"""The one colour scale of all attention pictures: white for 0 to deep red for 1."""

from __future__ import annotations

import numpy as np

# Each colour stands where its CIE lightness L* lies between that of white (100) and of deep red (28), so equal steps
# of weight are equal steps of lightness, and the scale survives a grey printer.
STOPS = (
    (0.000, "#ffffff"),
    (0.110, "#fee3d6"),
    (0.227, "#fdc4ad"),
    (0.362, "#fc9e80"),
    (0.495, "#f97455"),
    (0.649, "#e8432f"),
    (0.788, "#c91d1d"),
    (0.898, "#a80f12"),
    (1.000, "#8b0000"),
)
LEVELS = 256
_DARK_FROM = 0.66  # from this weight on, white text has more contrast than nearly black text


def _table() -> np.ndarray:
    positions = [position for position, _ in STOPS]
    stops = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for _, colour in STOPS])
    at = np.linspace(0.0, 1.0, LEVELS)
    channels = [np.interp(at, positions, stops[:, channel]) for channel in range(3)]
    return np.rint(np.stack(channels, axis=-1)).astype(np.uint8)


TABLE = _table()  # (LEVELS, 3): red, green, blue
TABLE.setflags(write=False)


def colours(weights: np.ndarray) -> np.ndarray:
    """Colours of weights: any shape S, in [0, 1] (rounding above 1 counts as 1) -> uint8 (*S, 3)."""
    level = np.rint(np.asarray(weights, dtype=np.float64) * (LEVELS - 1)).astype(int)
    return TABLE[np.minimum(level, LEVELS - 1)]


def is_dark(weight: float) -> bool:
    """Whether text on the colour of `weight` should be white."""
    return weight >= _DARK_FROM


def css(weight: float) -> str:
    """The colour of one weight as CSS writes it, e.g. `#8b0000`."""
    return "#{:02x}{:02x}{:02x}".format(*colours(weight))


def terminal(weight: float) -> int:
    """The nearest of the 216 cube colours that terminals with 256 colours have."""
    cube = np.array([0, 95, 135, 175, 215, 255])
    red, green, blue = (int(np.abs(cube - int(channel)).argmin()) for channel in colours(weight))
    return 16 + 36 * red + 6 * green + blue
