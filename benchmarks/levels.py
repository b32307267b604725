"""Measure what each protocol, scheme and level costs on the demo's tables; print docs/costs.md's table.

    python benchmarks/levels.py [--write]

Every cell is one run with three processes on this machine: seconds after start-up, and bytes on the wire.
`--write` puts the table into docs/costs.md.
"""

from __future__ import annotations

import sys

import measuring
from rich.filesize import decimal

from mpc_spearman import run_local
from mpc_spearman.results.costs import totals
from mpc_spearman.units import human_seconds

LEVELS = ("differences", "coefficients", "strengths", "ranking")
CONSENT = [
    "parties.target.policy={max_reveal: differences}",
    "parties.sources.A.policy={max_reveal: differences}",
    "results.target=null",  # what each level gives by default
]
SCHEMES = {
    "MPC": ["protocol=mpc"],
    "HE, BFV": ["protocol=he", "he.scheme=bfv"],
    "HE, Paillier, short randomness": ["protocol=he", "he.randomness=short"],
}


def main() -> None:
    """Run everything and print, or write, the table."""
    options = measuring.parser(__doc__).parse_args()
    rows = []
    for name, settings in SCHEMES.items():
        cells = [
            cost("mpc.yaml", [*settings, f"reveal={level}", *CONSENT])
            if (level, settings[0]) != ("ranking", "protocol=he")
            else "–"
            for level in LEVELS
        ]
        rows.append([name, *cells])
    rows.append(["HE, the paper literally, first 300 rows", cost("paper_he.yaml", []), "–", "–", "–"])
    text = measuring.table(["", *(f"`{level}`" for level in LEVELS)], rows)
    measuring.show(f"{text}\n{measuring.environment('torch')}\n", __file__, write=options.write)


def cost(plan: str, settings: list[str]) -> str:
    """Run a plan; say how long it took after start-up and what crossed the wire."""
    print(plan, *settings, file=sys.stderr)
    spent = totals(run_local(measuring.ROOT / "configs" / plan, overrides=settings))
    return f"{human_seconds(spent.seconds)}, {decimal(spent.wire)}"


if __name__ == "__main__":
    main()
