"""Pages refer to what is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
FILE = re.compile(r"`((?:src|tests|benchmarks|examples|docs)/[\w./-]+\.\w+)`")


def anchors(page):
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in LINK.findall(CODE.sub("", page.read_text())):
        if link.startswith(("http:", "https:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page):
    for name in FILE.findall(page.read_text()):
        assert (ROOT / name).exists(), name


def test_every_page_is_within_reach_of_the_readme():
    seen, open_ = set(), [ROOT / "README.md"]
    while open_:
        page = open_.pop()
        if page not in seen:
            seen.add(page)
            links = (link.partition("#")[0] for link in LINK.findall(page.read_text()))
            found = ((page.parent / link).resolve() for link in links if link.endswith(".md"))
            open_ += [each for each in found if each.exists()]
    assert {*PAGES} - seen <= {ROOT / "CHANGELOG.md"}
