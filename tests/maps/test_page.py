from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attention.maps import AttentionMap, colours
from keras_attention.maps.labels import visible

TOKEN = st.text(st.characters(codec=None), max_size=8)
HOSTILE = ["<script>alert(1)</script>", "\"' onmouseover='x", "&amp;&", "</td></table>", "{name}", "%s", "]]>-->"]


class Reader(HTMLParser):
    """Collects tags, labels by scope, titles of cells and colours."""

    def __init__(self, page: str):
        super().__init__(convert_charrefs=True)
        self.tags, self.labels, self.titles, self.styles = [], {"row": [], "col": []}, [], []
        self.attributes, self.open_label = [], None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.append(tag)
        self.attributes += values.items()
        if tag == "th":
            self.open_label = values["scope"]
            self.labels[self.open_label].append("")
            assert values["dir"] == "auto"
        if tag == "td" and "title" in values:
            self.titles.append(values["title"])
            self.styles.append(values["style"])

    def handle_endtag(self, tag):
        if tag == "th":
            self.open_label = None

    def handle_data(self, data):
        if self.open_label:
            self.labels[self.open_label][-1] += data


def make(rows, columns, weights=None, **changes) -> AttentionMap:
    if weights is None:
        weights = np.random.default_rng(3).random((len(rows), len(columns)))
    fields = {"name": "decoder", "layer": "attention", "kind": "dot", "axes": (), **changes}
    return AttentionMap(weights=weights, rows=rows, columns=columns, **fields)


@given(st.lists(TOKEN, min_size=1, max_size=3), st.lists(TOKEN, min_size=1, max_size=4), TOKEN)
@settings(deadline=None, max_examples=150)
def test_any_text_in_tokens_stays_text(rows, columns, name):
    plain = Reader(make(["a"] * len(rows), ["b"] * len(columns)).html())
    page = make(rows, columns, name=name, layer=name, kind="dot").html()
    read = Reader(page)
    assert read.labels == {"row": [visible(r) for r in rows], "col": [visible(c) for c in columns]}
    assert sorted(set(read.tags)) == sorted(set(plain.tags))
    assert read.tags.count("td") == plain.tags.count("td") and read.tags.count("th") == plain.tags.count("th")
    assert {name for name, _ in read.attributes} <= {name for name, _ in plain.attributes}


@pytest.mark.parametrize("token", HOSTILE)
def test_hostile_tokens_are_escaped_everywhere(token):
    read = Reader(make([token], ["x", token], name=token).html())
    assert read.labels == {"row": [token], "col": ["x", token]}
    assert "script" not in read.tags
    assert not [name for name, _ in read.attributes if name.startswith("on")]
    assert read.titles[1].startswith(f"\u2068{token}\u2069 → \u2068{token}\u2069: ")


def test_the_title_of_a_cell_tells_row_column_and_weight():
    read = Reader(make(["le", "chat"], ["the", "cat"], [[0.9, 0.1], [0, 1]]).html())
    told = [title.replace("\u2068", "").replace("\u2069", "") for title in read.titles]
    assert told == ["le → the: 0.900", "le → cat: 0.100", "chat → the: 0.000", "chat → cat: 1.000"]


def test_cells_have_the_colours_of_the_scale():
    weights = [[0, 0.35, 1]]
    read = Reader(make(["a"], ["x", "y", "z"], weights).html())
    assert read.styles == [f"background:{colours.css(weight)}" for weight in weights[0]]
    assert read.styles[0].endswith("#ffffff") and read.styles[2].endswith("#8b0000")


def test_the_page_loads_nothing_and_runs_nothing():
    page = make(["a"], ["b"]).html()
    assert "<script" not in page and "http://" not in page and "https://" not in page
    assert "url(" not in page and "@import" not in page
    assert "default-src 'none'" in page
    assert page.startswith("<!DOCTYPE html>") and '<meta charset="utf-8">' in page


def test_the_page_follows_light_and_dark_mode():
    assert "color-scheme: light dark" in make(["a"], ["b"]).html()


def test_each_slice_has_a_heading_and_a_table():
    weights = np.random.default_rng(0).random((2, 3, 2, 4))
    page = make(["a", "b"], list("wxyz"), weights, axes=("hop", "head")).html()
    headings = re.findall(r"<h3[^>]*><bdi>(.*?)</bdi></h3>", page)
    assert headings == [f"hop {hop}, head {head}" for hop in range(2) for head in range(3)]
    assert Reader(page).tags.count("table") == 6


def test_each_column_has_a_rule_that_marks_its_label():
    page = make(["a"], ["x", "y", "z"]).html()
    marked = re.findall(r"has\(tbody td:nth-child\((\d+)\):hover\) thead th:nth-child\((\d+)\)", page)
    assert marked == [("2", "2"), ("3", "3"), ("4", "4")]


def test_weights_are_printed_only_where_they_fit():
    few, many = make(["a"], ["x"], [[0.25]]), make(["a"], ["x"] * 17, [[0.25] * 17])
    assert ">0.25</td>" in few.html() and ">0.25</td>" not in many.html()


def test_right_to_left_tokens_are_isolated():
    page = make(["המכתבה"], ["المكتبة"]).html()
    assert "<bdi>המכתבה</bdi>" in page and "<bdi>المكتبة</bdi>" in page


def test_the_page_is_written_in_utf_8_and_returned(tmp_path):
    one = make(["図書館"], ["Où"])
    page = one.html(tmp_path / "map.html")
    assert (tmp_path / "map.html").read_bytes() == page.encode("utf-8") and "図書館" in page
    assert [file.name for file in tmp_path.iterdir()] == ["map.html"]


def test_a_page_that_cannot_be_written_says_why(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"Cannot write .*none/map\.html': No such file") as caught:
        make(["a"], ["b"]).html(tmp_path / "none" / "map.html")
    assert "\n" not in str(caught.value)


def test_an_empty_map_has_a_page():
    assert Reader(make([], ["x", "y"], np.zeros((0, 2))).html()).labels == {"row": [], "col": ["x", "y"]}
    assert Reader(make(["a"], [], np.zeros((1, 0))).html()).labels == {"row": ["a"], "col": []}


def test_notebooks_show_the_table():
    one = make(["a"], ["b"])
    assert one._repr_html_().startswith('<div class="attention-map">') and one._repr_html_() in one.html()
