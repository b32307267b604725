"""The report on paper, by a real browser."""

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


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_the_printed_page_shows_what_a_click_would_open(tmp_path: Path) -> None:
    a, b = tables(300, 2, 500)
    html = report.render(computed({"A": a}, b))
    pages = {}
    for name, text in (("whole", html), ("closed", re.sub(r"details::details-content \{[^}]*\}", "", html))):
        page, printed = tmp_path / f"{name}.html", tmp_path / f"{name}.pdf"
        page.write_text(text)
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
        command = [str(BROWSER), *options, f"--print-to-pdf={printed}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=EVER)
        pages[name] = printed.read_bytes().count(b"/Type /Page\n")
    assert pages["whole"] > pages["closed"] + 5  # 460 more lines of the ranking
