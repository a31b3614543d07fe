from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attention.maps import AttentionMap
from keras_attention.maps.labels import display_width

WORDS = ["the", "small", "cat", "lived", "behind", "internationalisation", "of", "a", "very", "図書館", "של", "העיר"]
TOKEN = st.text(st.characters(codec=None), max_size=30)


def make(rows, columns, weights=None, axes=(), name="decoder") -> AttentionMap:
    if weights is None:
        weights = np.random.default_rng(3).random((len(rows), len(columns)))
    return AttentionMap(name, "attention", "dot", weights, rows, columns, axes)


def grid_lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.endswith("│")]


def test_a_small_map_reads_as_expected():
    text = make(["Où", "est"], ["Where", "is"], [[1, 0], [0.3, 0.6]]).text(width=40, color=False)
    assert text.split("\n") == [
        "decoder",
        "    ┌ Where",
        "    │ ┌ is",
        " Où│██  │",
        "est│▒▒▓▓│",
        "░ from 0.05  ▒ from 0.25  ▓ from 0.5  █ from 0.75",
    ]


@pytest.mark.parametrize(
    ("weight", "shade"),
    [(0, " "), (0.049, " "), (0.05, "░"), (0.25, "▒"), (0.5, "▓"), (0.74, "▓"), (0.75, "█"), (1.0009, "█")],
)
def test_shades_begin_where_the_scale_says(weight, shade):
    assert grid_lines(make(["a"], ["b"], [[weight]]).text(width=20, color=False)) == [f"a│{shade * 2}│"]


@given(
    st.lists(TOKEN, min_size=1, max_size=4),
    st.lists(TOKEN, min_size=1, max_size=30),
    st.integers(20, 100),
    st.booleans(),
)
@settings(deadline=None, max_examples=100)
def test_grid_lines_of_a_block_are_equally_wide_and_all_lines_fit(rows, columns, width, color):
    text = re.sub(r"\x1b\[[\d;]*m", "", make(rows, columns).text(width=width, color=color))
    lines = text.split("\n")
    blocks, current = [], []
    for line in lines:
        if line.endswith("│"):
            current.append(display_width(line))
        elif current:
            blocks.append(current)
            current = []
    assert all(len(block) == len(rows) and len(set(block)) == 1 for block in blocks)
    assert all(line == line.rstrip(" ") for line in lines)
    assert all(display_width(line) <= max(width, len(lines[-1])) for line in lines)


@pytest.mark.parametrize("width", [20, 80, 200])
@pytest.mark.parametrize("count", [3, 60])
def test_every_column_is_drawn_once_and_labelled(count, width):
    columns = [f"w{place}x" for place in range(count)]
    text = make(["a"], columns, np.ones((1, count))).text(width=width, color=False)
    cell = 2 if count == 3 or width == 200 else 1
    assert sum(line.count("█") for line in grid_lines(text)) == cell * count
    assert all(len(re.findall(rf"\b{column}\b", text)) == 1 for column in columns)


def test_numbers_stand_over_their_columns():
    weights = np.zeros((1, 60))
    weights[0, 41] = 1
    lines = make(["a"], [f"w{place}" for place in range(60)], weights).text(width=80, color=False).split("\n")
    at = next(line for line in lines if line.startswith("a│")).index("█")
    assert lines[1][at] + lines[2][at] == "42"
    assert "42 w41" in " ".join(lines)


def test_sixty_columns_stay_in_one_block_of_an_80_cell_terminal():
    words = [WORDS[place % len(WORDS)] for place in range(60)]
    assert len(grid_lines(make(words, words).text(width=80, color=False))) == 60


def test_right_to_left_labels_are_fenced_by_marks():
    text = make(["המכתבה"], ["המכתבה"]).text(width=40, color=False)
    assert "\u200eהמכתבה\u200e│" in text and "┌ \u200eהמכתבה\u200e" in text


def test_control_characters_never_reach_the_terminal():
    assert "\x1b" not in make(["\x1b[2J"], ["\x9b31m"], name="\x1b]0;x\x07").text(width=40, color=False)


def test_slices_stand_below_one_another_with_headings():
    text = make(["a"], ["b"], np.ones((2, 1, 1)), axes=("head",)).text(width=40, color=False)
    assert [line for line in text.split("\n") if line.startswith("head")] == ["head 0", "head 1"]


def test_colour_uses_the_256_colours_and_the_same_grid():
    one = make(["a"], ["b", "c"], [[0, 1]])
    text = one.text(width=40, color=True)
    assert "a│\x1b[48;5;231m  \x1b[0m\x1b[48;5;88m  \x1b[0m│" in text


def test_without_a_terminal_there_is_no_colour_and_the_width_comes_from_columns(monkeypatch):
    one = make(["a"], list("xyz"))
    monkeypatch.setenv("COLUMNS", "30")
    assert one.text() == one.text(width=30, color=False)


def test_no_color_is_obeyed_in_a_terminal(monkeypatch):
    one = make(["a"], ["b"])
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in one.text(width=40)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in one.text(width=40)


def test_a_line_too_narrow_is_refused():
    with pytest.raises(ValueError, match=r"`width` is 19. Expected at least 20 cells"):
        make(["a"], ["b"]).text(width=19)


def test_an_empty_map_has_a_text():
    assert "┌ x" in make([], ["x"], np.zeros((0, 1))).text(width=40, color=False)
    assert "a││" in make(["a"], [], np.zeros((1, 0))).text(width=40, color=False)
