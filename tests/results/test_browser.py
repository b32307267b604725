"""The pages in a real browser, headless: whole, legible, within the window, in light and in dark, offline."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mpc_spearman.results import charts, report
from support.made_results import computed, synthetic, tables
from support.processes import EVER

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")

WIDE, NARROW = 1100, 500
#: WCAG 2.2 AA, for text of normal size.
LEGIBLE = 4.5

# The page has no script that could say what it looks like: for the test alone this one is put at its end, and
# the page's own ban on scripts taken out.
PROBE = """<script>addEventListener('load', () => {
const shown = e => { const r = e.getBoundingClientRect(); return r.width > 0 && r.height > 0; };
const box = e => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
const background = e => {
  for (; e; e = e.parentElement) {
    const colour = getComputedStyle(e).backgroundColor;
    if (colour !== 'rgba(0, 0, 0, 0)') return colour;
  }
  return 'rgb(255, 255, 255)';
};
const texts = [];
for (const e of document.querySelectorAll('body *')) {
  const own = [...e.childNodes].some(c => c.nodeType === 3 && c.data.trim());
  if (!own || !shown(e) || ['SCRIPT', 'STYLE', 'title'].includes(e.nodeName)) continue;
  const style = getComputedStyle(e);
  texts.push([e.ownerSVGElement ? style.fill : style.color, background(e), e.textContent.slice(0, 30)]);
}
const found = {
  dark: matchMedia('(prefers-color-scheme: dark)').matches,
  wide: document.documentElement.scrollWidth, window: document.documentElement.clientWidth,
  fetched: performance.getEntriesByType('resource').map(r => r.name.slice(0, 40)),
  broken: [...document.images].filter(i => !(i.complete && i.naturalWidth > 0)).length,
  pictures: document.images.length,
  cells: document.querySelectorAll('.map td[title]').length,
  labels: [...document.querySelectorAll('.map th')].map(box),
  map: [...document.querySelectorAll('.map')].map(box),
  texts: [...new Map(texts.map(t => [t[0] + t[1], t])).values()],
};
document.documentElement.innerHTML = '<body><pre id="probe"></pre></body>';
document.getElementById('probe').textContent = JSON.stringify(found).replaceAll('<', '?');
});</script>"""


def look(html: str, folder: Path, width: int = WIDE, dark: bool = False) -> dict[str, Any]:
    """Open a page in a window, and say what is seen there."""
    assert "<script" not in html
    probed = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html)
    assert probed != html
    file = folder / "page.html"
    file.write_text(probed.replace("</body>", PROBE + "</body>"))
    options = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--hide-scrollbars", "--disable-background-networking", "--disable-component-update",
        "--disable-sync",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        f"--user-data-dir={folder / 'profile'}", f"--window-size={width},1200", "--dump-dom",
    ]  # fmt: skip
    done = subprocess.run([str(BROWSER), *options, file.as_uri()], capture_output=True, text=True, check=True)
    (found,) = re.findall(r'<pre id="probe">(.*?)</pre>', done.stdout, re.S)
    seen: dict[str, Any] = json.loads(found.replace("&amp;", "&").replace("&gt;", ">"))
    assert seen["dark"] is dark
    return seen


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2) of ``rgb(1, 2, 3)`` or ``color(srgb 0.1 0.2 0.3)``."""
    scale = 255 if colour.startswith("rgb") else 1
    parts = [float(part) / scale for part in re.findall(r"[\d.]+(?:e-\d+)?", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def check_page(seen: dict[str, Any]) -> None:
    assert seen["wide"] <= seen["window"]  # nothing sticks out to the right
    assert [name for name in seen["fetched"] if not name.startswith("data:")] == []
    assert seen["texts"]
    for ink, paper, text in seen["texts"]:
        low, high = sorted((luminance(ink), luminance(paper)))
        assert (high + 0.05) / (low + 0.05) >= LEGIBLE, (ink, paper, text)


@cache
def rendered(source: int, target: int) -> str:
    return report.render(synthetic(n=60, source=source, target=target))


@pytest.mark.parametrize(("source", "target", "dark"), [(4, 6, True), (4, 6, False), (200, 200, True)])
def test_the_report_can_be_read(source: int, target: int, dark: bool, tmp_path: Path) -> None:
    seen = look(rendered(source, target), tmp_path, dark=dark)
    check_page(seen)
    sides = [min(side, charts.LONGEST_SIDE) for side in (source, target)]
    assert (seen["cells"], len(seen["labels"])) == (math.prod(sides), sum(sides))
    check_map(seen)
    (around,) = seen["map"]
    assert around[2] <= WIDE  # all columns at once


def check_map(seen: dict[str, Any]) -> None:
    (around,) = seen["map"]
    for label in seen["labels"]:
        assert around[0] - 1 <= label[0] <= label[2] <= around[2] + 1
        assert around[1] - 1 <= label[1] <= label[3] <= around[3] + 1


@pytest.mark.parametrize("letter", ["W", "数", "\u202e"])
def test_long_names_stay_on_the_page(letter: str, tmp_path: Path) -> None:
    a, b = tables(60, 4, 6)
    name = letter * 300
    a.columns, b.columns = [f"{i}{name}" for i in range(4)], [f"{name}{i}" for i in range(6)]
    warnings = [name, "\n".join([name, name])]
    result = computed({"P" * 64: a, "Q" * 64: a}, b, coordinator="C" * 64, warnings=warnings)
    seen = look(report.render(result), tmp_path, NARROW)
    check_page(seen)
    check_map(seen)


def test_the_report_fits_a_narrow_window(tmp_path: Path) -> None:
    check_page(look(rendered(30, 30), tmp_path, width=NARROW))


def test_print_has_what_a_click_would_open(tmp_path: Path) -> None:
    a, b = tables(300, 2, 500)
    html = report.render(computed({"A": a}, b))
    for name, text in (("whole", html), ("closed", re.sub(r"details::details-content \{[^}]*\}", "", html))):
        (tmp_path / name).with_suffix(".html").write_text(text)
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
        to = f"--print-to-pdf={tmp_path / name}.pdf"
        command = [str(BROWSER), *options, to, (tmp_path / name).with_suffix(".html").as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=EVER)
    pages = {
        name: (tmp_path / f"{name}.pdf").read_bytes().count(b"/Type /Page\n") for name in ("whole", "closed")
    }
    assert pages["whole"] > pages["closed"] + 5  # 460 more lines of the ranking
