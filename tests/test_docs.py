from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[1]
# Pages whose examples stand on their own, how many they have, and the picture that they draw.
PAGES = {
    "docs/layers.md": (3, None),
    "docs/soft_attention.md": (1, "soft_attention.png"),
    "docs/local_attention.md": (1, "local_attention.png"),
    "docs/hard_attention.md": (1, "hard_attention.png"),
    "docs/stepwise_attention.md": (1, "stepwise_attention.png"),
    "docs/multi_dimensional_attention.md": (1, "structured_attention.png"),
    "docs/multi_head_attention.md": (1, "multi_head_attention.png"),
    "docs/pooling.md": (1, "pooling.png"),
    "docs/memory_attention.md": (1, "memory_attention.png"),
    "docs/decoder_cells.md": (1, "decoder_cells.png"),
    "docs/attention_maps.md": (1, "attention_maps.png"),
    "docs/translation.md": (1, None),
}


def examples(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    count, picture = PAGES[page]
    found = examples(page)
    assert len(found) == count
    for source in found:
        exec(compile(source, page, "exec"), {})
    assert [one.name for one in tmp_path.iterdir()] == ([picture] if picture else [])
    if picture:
        assert f"](images/{picture})" in (ROOT / page).read_text("utf-8")
        sizes = []
        for path in (tmp_path / picture, ROOT / "docs" / "images" / picture):
            with Image.open(path) as image:
                sizes.append(image.size)
        assert sizes[0] == pytest.approx(sizes[1], rel=0.05)  # the picture that is checked in is of this example


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    for page in ROOT.glob("docs/*.md"):
        assert page.name == "README.md" or f"]({page.name})" in index, page.name


def test_the_first_example_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = examples("README.md")[0]
    names: dict = {}
    exec(compile(source, "README.md", "exec"), names)
    assert (tmp_path / "attention.png").stat().st_size > 5000
    assert (tmp_path / "nmt.tflite").is_file()
    (said,) = re.findall(r"result\.output +# (.+)", source)
    assert names["result"].output == said


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("export/*.md"), *ROOT.glob("zoo/*/README.md")]:
        prose = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+)\)", prose):
            assert (page.parent / target).exists(), f"{page.name} names {target}"
