"""What people look at: the HTML page of a run directory, and how pages are made.

A page is one file with nothing to fetch, so it can be mailed and opened offline. The report has one script of
its own, which sorts and filters tables; its policy allows no other. Names are other parties' text: templates
escape everything.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal

from mpc_spearman.config.wording import spoken
from mpc_spearman.results import charts
from mpc_spearman.results.costs import totals
from mpc_spearman.results.outcome import Outcome
from mpc_spearman.units import human_seconds, printable
from mpc_spearman.version import __version__

if TYPE_CHECKING:
    import jinja2


def template(name: str, **filters: Callable[..., Any]) -> jinja2.Template:
    """Load a template of this package with filters of its own."""
    import jinja2  # here, as only a page needs it

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("mpc_spearman"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters
    return environment.get_template(name)


@cache
def page() -> jinja2.Template:
    """Load the report's template, which is compiled once in a process and those forked from it."""
    return template("report.html", seconds=human_seconds, bytes=decimal, breakable=breakable, sha256=_sha256)


def breakable(name: str) -> str:
    """Return a name as HTML that browsers break after marks between its words, and not within these."""
    from markupsafe import Markup, escape

    parts = re.split(r"(?<=[_:/-])(?=[^\W_])|(?<=[^\W\d_]\.)(?=[^\W\d_])", name)
    return Markup("<wbr/>").join(map(escape, parts))


def _sha256(script: str) -> str:
    """Return the digest of a script as a page's policy has it."""
    return b64encode(hashlib.sha256(script.encode()).digest()).decode()


def render(result: Outcome) -> str:
    """Make the report of a party's copy, a whole HTML document; the same for the same result.

    Parts that the copy lacks are left out, with a sentence that says why.
    """
    from mpc_spearman.levels import view  # a table that only pages need

    plan, findings = result.plan, result.findings
    facts = {
        "Aligned rows": printable(result.rows_used()),
        "Protocol": plan.protocol.upper(),
        "Revealed": plan.reveal,
        **findings.facts(),
        "Precision": findings.precision(),
    }
    return page().render(
        charts=charts,
        result=result,
        headline=findings.outcome(),
        owner=printable(result.party),
        sources=", ".join(map(printable, findings.copy.sources)),
        target=printable(findings.copy.target),
        facts=facts,
        warnings=[[printable(line) for line in text.split("\n")] for text in result.warnings],
        sections=findings.sections(),
        views=_views(view.learnt(plan)),
        totals=totals(result),
        settings=json.dumps(plan.shared(), indent=1),
        version=__version__,
        digest=spoken(plan.digest()),
        rehearsal=plan.parties.coordinator.identity is None,
    )


def _views(rows: Sequence[Mapping[str, str]]) -> list[tuple[tuple[str, str], list[dict[str, Any]]]]:
    """Group what was learnt by party; what carries results first, what only failing runs send last."""
    from mpc_spearman.wire.kinds import place

    clean = [{key: printable(text).replace("`", "") for key, text in row.items()} for row in rows]
    return [
        (key, sorted(facts, key=lambda row: place(row["what"], row["phase"])))
        for key, facts in groupby(clean, lambda row: (row["party"], row["role"]))
    ]
