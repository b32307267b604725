"""Raw pairs of tables, each from ``mpc-spearman init`` to a result like SciPy's on tables cleaned by hand.

The edits are those that the plan's lines with ``# ?`` ask for; a test fails if it asks for others.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from scipy.stats import spearmanr

from mpc_spearman import correlate, run_local
from mpc_spearman.cli.main import main
from mpc_spearman.errors import TableError
from support import raw_pairs

pytestmark = pytest.mark.usefixtures("warm")


def init(folder: Path, tables: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert main(["init", *(path.name for path in tables)]) == 0


def decided(folder: Path, questions: int, edits: dict[str, str]) -> Path:
    """Return the plan after a number of questions were answered by replacing texts."""
    plan = folder / "plan.yaml"
    text = plan.read_text(encoding="utf-8")
    assert text.count("# ? ") + text.count(". ? ") == questions, text
    for before, after in edits.items():
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    plan.write_text(text, encoding="utf-8")
    return plan


def equals_scipy(plan: Path, cleaned: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    result = run_local(plan, reveal="coefficients")
    source_table, target_table = cleaned
    joined = source_table.dropna().merge(target_table, on="id")
    assert result.n == len(joined)
    coefficients = result.coefficients.loc["A"]
    assert {*coefficients.index} == {*source_table.columns} - {"id"}
    assert {*coefficients.columns} == {*target_table.columns} - {"id"}
    for feature, row in coefficients.iterrows():
        for target, rho in row.items():
            expected = spearmanr(joined[feature], joined[target]).statistic
            assert rho == pytest.approx(expected, abs=1e-12), (feature, target)


def test_an_export_of_a_german_spreadsheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    init(tmp_path, raw_pairs.german(tmp_path), monkeypatch)
    edits = {
        '#   CRP: ["<5"]': '  CRP: ["<5"]',
        "        - CRP  # ? '<5' in": "        # '<5' in",
        "        Raucher: flags  # [ja, nein]": "        Raucher: [nein, ja]",
    }
    equals_scipy(decided(tmp_path, 7, edits), raw_pairs.german_cleaned(tmp_path))


def test_claims_several_a_person_with_lost_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    init(tmp_path, raw_pairs.claims(tmp_path), monkeypatch)
    with pytest.raises(TableError, match="duplicate ids"):  # nothing is decided silently
        run_local(tmp_path / "plan.yaml")
    edits = {
        "# duplicates: {cost: HOW, days: HOW, age: HOW}": (
            "duplicates: {cost: sum, days: sum, age: max, claim: count}"
        ),
        "      exclude:\n        - claim  #": "        #",
    }
    plan, cleaned = decided(tmp_path, 3, edits), raw_pairs.claims_cleaned(tmp_path)
    equals_scipy(plan, cleaned)
    on, how = ("member_no", "id"), {"cost": "sum", "days": "sum", "age": "max", "claim": "count"}
    first = correlate("claims.csv", "clinic.csv", on, duplicates={"A": how}, normalise=["unpad"])
    joined = cleaned[0].dropna().merge(cleaned[1], on="id")
    rho = spearmanr(joined["cost"], joined["risk"]).statistic
    assert first.coefficients.loc[("A", "cost"), "risk"] == pytest.approx(rho, abs=1e-12)


def test_tables_of_r_with_codes_and_far_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    init(tmp_path, raw_pairs.survey(tmp_path), monkeypatch)
    edits = {
        "# missing_values:": "missing_values:",
        "#   pain: [-1]": "  pain: [-1]",
        "#   hba1c: [999]": "  hba1c: [999]",
        "#   left: [9999-12-31]": "  left: [9999-12-31]",
        "# missing: drop_rows": "missing: drop_rows",
    }
    equals_scipy(decided(tmp_path, 1, edits), raw_pairs.survey_cleaned(tmp_path))
