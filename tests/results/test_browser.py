"""The report on paper and its script, by a real browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mpc_spearman.results import report
from support.made_results import computed, tables
from support.processes import EVER

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")


def browse(page: Path, option: str) -> str:
    """Open a page with an option of Chromium's, and return what that prints."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={page.parent / 'profile'}"]
    command = [str(BROWSER), *options, option, page.as_uri()]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=EVER).stdout


def test_pairs_are_sorted_and_filtered_in_the_page(tmp_path: Path) -> None:
    a, b = tables(60, 2, 3)
    result = computed({"A": a}, b)
    page, html = tmp_path / "page.html", report.render(result)
    page.write_text(html)
    assert 'aria-label="filter names"' in browse(page, "--dump-dom")  # the page's policy allows its script
    page.write_text(re.sub("<meta http-equiv[^>]*>", "", html).replace("</body>", f"{ACTIONS}</body>"))
    shown = re.findall(r'<tr>\s*<th scope="row"><bdi>(.*?)</bdi>', browse(page, "--dump-dom"))
    expected = result.pairs().sort_values("rho", ascending=False)
    expected = expected[expected["target"] == "target_1"]
    names = [f"{row.source} × {row.target}" for row in expected.itertuples()]
    assert [name.replace("<wbr>", "") for name in shown if "×" in name] == names


#: Click on the head of ρ, then type.
ACTIONS = """<script>
document.querySelectorAll(".sorted button")[1].click();
const filter = document.querySelector("input"); filter.value = "TARGET_1"; filter.oninput();
</script>"""


@pytest.mark.long
def test_the_printed_page_shows_what_a_click_would_open(tmp_path: Path) -> None:
    a, b = tables(120, 2, 200)
    html = report.render(computed({"A": a}, b))
    pages = {}
    for name, text in (("whole", html), ("closed", re.sub("@media print .*", "", html))):
        page, printed = tmp_path / f"{name}.html", tmp_path / f"{name}.pdf"
        page.write_text(text)
        browse(page, f"--print-to-pdf={printed}")
        pages[name] = printed.read_bytes().count(b"/Type /Page\n")
    assert pages["whole"] > pages["closed"] + 2  # 160 more lines of the ranking
