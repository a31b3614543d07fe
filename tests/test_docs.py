from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = {"docs/layers.md": 2}  # pages whose examples stand on their own, and how many they have


def examples(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page):
    found = examples(page)
    assert len(found) == PAGES[page]
    for source in found:
        exec(compile(source, page, "exec"), {})


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
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} names {target}"
