from __future__ import annotations

import itertools
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.font_manager import findfont, get_font
from matplotlib.image import imread

from keras_attention.maps import AttentionMap, MissingGlyphWarning

WORDS = ["the", "small", "cat", "lived", "behind", "internationalisation", "of", "a", "very", "old", "library"]


def make(rows, columns, weights=None, axes=(), name="decoder") -> AttentionMap:
    if weights is None:
        weights = np.random.default_rng(3).random((len(rows), len(columns)))
    return AttentionMap(name, "attention", "dot", weights, rows, columns, axes)


def sentence(count: int) -> list[str]:
    return [f"▁{WORDS[place % len(WORDS)]}" for place in range(count)]


def panels(figure) -> list:
    return [axes for axes in figure.axes if axes.get_label() != "weight"]


def tick_texts(axes) -> tuple[list[str], list[str]]:
    return [t.get_text() for t in axes.get_yticklabels()], [t.get_text() for t in axes.get_xticklabels()]


def boxes(figure) -> list:
    """The places of all texts that are seen, in pixels."""
    renderer = figure.canvas.get_renderer()
    figure.draw(renderer)
    texts = list(figure.texts)
    for axes in panels(figure):
        texts += [*axes.get_xticklabels(), *axes.get_yticklabels(), axes.title]
    return [(text.get_text(), text.get_window_extent(renderer)) for text in texts if text.get_text()]


def overlap(one, other) -> bool:
    slack = 0.5  # pixels: extents are rounded outwards
    across = min(one.x1, other.x1) - max(one.x0, other.x0)
    along = min(one.y1, other.y1) - max(one.y0, other.y0)
    return across > slack and along > slack


def assert_texts_are_apart_and_inside(figure) -> None:
    places = boxes(figure)
    width, height = figure.canvas.get_width_height()
    for text, box in places:
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height, text
    heats = [axes.get_window_extent() for axes in panels(figure)]
    for (text, box), (other_text, other) in itertools.combinations(places, 2):
        assert not overlap(box, other), (text, other_text)
    for text, box in places:
        assert not any(overlap(box, heat) for heat in heats), text


def assert_matplotlib_never_warns(one: AttentionMap) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", MissingGlyphWarning)
        figure = one.plot()
        figure.canvas.draw()


def test_weight_0_is_white_and_weight_1_deep_red_in_the_png(tmp_path):
    weights = [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]
    one = make(["a", "b", "c"], ["x", "y"], weights)
    (axes,) = panels(one.plot(dpi=100, weights_in_cells=False))
    image = imread(one.plot(tmp_path / "map.png", dpi=100, weights_in_cells=False))
    for (row, column), weight in np.ndenumerate(weights):
        x, y = axes.transData.transform((column, row))
        pixel = np.rint(image[image.shape[0] - 1 - int(y), int(x), :3] * 255).astype(int)
        assert pixel.tolist() == ([139, 0, 0] if weight else [255, 255, 255])


def test_the_scale_is_fixed_from_0_to_1():
    (axes,) = panels(make(["a"], ["b"], [[0.2]]).plot())
    assert axes.images[0].get_clim() == (0.0, 1.0)


@pytest.mark.parametrize(("rows", "columns"), [(3, 3), (60, 60), (3, 60), (60, 2), (1, 1), (17, 24)])
def test_labels_are_all_there_and_do_not_overlap(rows, columns):
    figure = make(sentence(rows), sentence(columns)).plot()
    (axes,) = panels(figure)
    assert tick_texts(axes) == (sentence(rows), sentence(columns))
    assert_texts_are_apart_and_inside(figure)


def test_labels_of_sixty_tokens_can_be_read():
    (axes,) = panels(make(sentence(60), sentence(60)).plot())
    assert min(text.get_fontsize() for text in axes.get_xticklabels() + axes.get_yticklabels()) >= 6


def test_column_labels_stand_on_top_and_lie_flat_where_they_fit():
    flat, turned = make(["a"], ["x", "y"]).plot(), make(["a"], ["x", "internationalisation"]).plot()
    rotations = [{text.get_rotation() for text in panels(figure)[0].get_xticklabels()} for figure in (flat, turned)]
    assert rotations == [{0}, {90}]
    place, box = boxes(flat)[1], panels(flat)[0].get_window_extent()
    assert place[0] == "x" and place[1].y0 >= box.y1


def test_long_labels_and_titles_are_shortened():
    figure = make(["a" * 100], ["b"], name="n" * 500).plot()
    ((row,), _) = tick_texts(panels(figure)[0])
    assert row == "a" * 23 + "…" and figure.texts[0].get_text() == "n" * 89 + "…"
    assert_texts_are_apart_and_inside(figure)


def test_of_very_many_labels_every_other_is_left_out():
    columns = [f"{place}" for place in range(301)]
    figure = make(["a"], columns).plot()
    (axes,) = panels(figure)
    assert tick_texts(axes)[1] == columns[::3] and list(axes.get_xticks()) == list(range(0, 301, 3))
    assert_texts_are_apart_and_inside(figure)


@pytest.mark.parametrize("shape", [(4,), (7,), (3, 2)])
def test_slices_become_panels_with_their_index_as_title(shape):
    names = ("hop", "head")[-len(shape) :]
    weights = np.random.default_rng(0).random((*shape, 4, 5))
    figure = make(sentence(4), sentence(5), weights, names).plot()
    titles = [axes.get_title() for axes in panels(figure)]
    assert titles == [", ".join(f"{n} {i}" for n, i in zip(names, at, strict=True)) for at in np.ndindex(shape)]
    for axes, index in zip(panels(figure), np.ndindex(shape), strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), weights[index].astype(np.float32))
    assert_texts_are_apart_and_inside(figure)


def test_too_many_slices_are_refused_with_the_mend():
    with pytest.raises(ValueError, match=r"65 slices along \('head',\). Expected at most 64.*select\(head='mean'\)"):
        make(["a"], ["b"], np.zeros((65, 1, 1)), ("head",)).plot()


def test_special_characters_are_shown_as_they_are():
    labels = ["$x^2$", "\\frac", "a_b", "^", "$", "<b>"]
    figure = make(labels, labels, name="$\\alpha$").plot()
    (axes,) = panels(figure)
    assert tick_texts(axes) == (labels, labels) and figure.texts[0].get_text() == "$\\alpha$"
    assert not any(text.get_parse_math() for text in axes.get_xticklabels() + axes.get_yticklabels() + figure.texts)
    assert_matplotlib_never_warns(make(["$\\nosuch{"], ["x"]))


@pytest.mark.parametrize(
    "tokens",
    [
        ["図書館", "は", "どこ"],
        ["图书馆", "在", "哪里"],
        ["도서관", "은"],
        ["أين", "المكتبة", "؟"],
        ["איפה", "הספרייה", "abc אב 12"],
        ["पुस्तकालय", "ห้องสมุด", "😀"],
        ["\n", "\t", "\x00", " ", "\u202e", "\ue000", "\ud800"],
    ],
)
def test_no_script_makes_matplotlib_warn_of_glyphs(tokens):
    assert_matplotlib_never_warns(make(tokens, tokens, name=" ".join(tokens)))


@given(st.lists(st.text(st.characters(codec=None), max_size=6), min_size=1, max_size=4))
@settings(deadline=None, max_examples=25)
def test_no_text_at_all_makes_matplotlib_warn_of_glyphs(tokens):
    assert_matplotlib_never_warns(make(tokens, tokens))


def test_a_glyph_of_another_family_is_drawn_without_a_warning():
    stix, dejavu = (get_font(findfont(family)).get_charmap() for family in ("STIXGeneral", "DejaVu Sans"))
    character = chr(min(code for code in stix if code not in dejavu and code > 0x2100))
    figure = make([character], ["a"]).plot()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.canvas.draw()
    assert tick_texts(panels(figure)[0])[0] == [character]


def test_the_style_of_the_user_changes_no_colour(tmp_path):
    one = make(["a"], ["b"], [[1.0]])
    plain = imread(one.plot(tmp_path / "plain.png"))
    with matplotlib.rc_context({"savefig.facecolor": "black", "axes.facecolor": "black", "text.color": "white"}):
        styled = imread(one.plot(tmp_path / "styled.png"))
    np.testing.assert_array_equal(plain, styled)


def test_weights_are_written_where_they_fit_or_where_asked():
    few, many = make(["a"], ["x", "y"], [[0.25, 1]]), make(sentence(20), sentence(20))
    assert [text.get_text() for text in panels(few.plot())[0].texts] == ["0.25", "1.00"]
    assert not panels(few.plot(weights_in_cells=False))[0].texts and not panels(many.plot())[0].texts
    assert len(panels(many.plot(weights_in_cells=True))[0].texts) == 400


def test_the_title_can_be_given_or_left_out():
    one = make(["a"], ["b"])
    assert [text.get_text() for text in one.plot(title="Two words").texts] == ["Two words"]
    assert not one.plot(title="").texts


def test_an_svg_is_well_formed_and_carries_no_date(tmp_path):
    one = make(["a", "<&>"], ["x", "y"])
    path = one.plot(tmp_path / "map.SVG")
    assert path == tmp_path / "map.SVG" and ElementTree.parse(path).getroot().tag.endswith("svg")
    assert "<dc:date>" not in path.read_text()


def test_a_png_has_the_size_that_dpi_asks_for(tmp_path):
    one = make(["a"], ["b"])
    small, large = (imread(one.plot(tmp_path / f"{dpi}.png", dpi=dpi)).shape[1] for dpi in (50, 200))
    assert large == pytest.approx(4 * small, rel=0.05)


@pytest.mark.parametrize("name", ["map.pdf", "map", "map.jpg"])
def test_another_suffix_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"Expected \.png or \.svg. Name it e\.g\. attention\.png"):
        make(["a"], ["b"]).plot(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dpi", [0, -1, float("nan")])
def test_a_bad_dpi_is_refused(dpi):
    with pytest.raises(ValueError, match=r"`dpi` is .* Expected pixels per inch, above 0"):
        make(["a"], ["b"]).plot(dpi=dpi)


def test_a_picture_that_cannot_be_written_says_why_in_one_line(tmp_path):
    (tmp_path / "folder.png").mkdir()
    for path, reason in [("none/map.png", "No such file or directory"), ("folder.png", "it is a folder")]:
        with pytest.raises(OSError, match=f"Cannot write .*{path}': {reason}. Expected a file name in") as caught:
            make(["a"], ["b"]).plot(tmp_path / path)
        assert "\n" not in str(caught.value)
    assert [file.name for file in tmp_path.iterdir()] == ["folder.png"]


def test_a_picture_replaces_the_old_one_only_when_it_is_whole(tmp_path, monkeypatch):
    path = tmp_path / "map.png"
    path.write_bytes(b"old")

    def full_disk(self, content):
        self.touch()
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full_disk)
        with pytest.raises(OSError, match="No space left on device"):
            make(["a"], ["b"]).plot(path)
    assert path.read_bytes() == b"old" and [file.name for file in tmp_path.iterdir()] == ["map.png"]
    make(["a"], ["b"]).plot(path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_link_is_followed(tmp_path):
    link = tmp_path / "link.png"
    link.symlink_to(tmp_path / "map.png")
    make(["a"], ["b"]).plot(link)
    assert link.is_symlink() and (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_an_empty_map_has_a_picture(shape):
    figure = make(sentence(shape[0]), sentence(shape[1]), np.zeros(shape)).plot()
    figure.canvas.draw()
    assert tick_texts(panels(figure)[0]) == (sentence(shape[0]), sentence(shape[1]))


def test_matplotlib_is_imported_for_plots_only_and_pyplot_never():
    code = (
        "import sys; from keras_attention.maps import AttentionMap as A; m = A('n', 'l', 'k', [[1.0]], ['a'], ['b']); "
        "m.html(); m.text(); m.links(); assert 'matplotlib' not in sys.modules; "
        "m.plot(); assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
