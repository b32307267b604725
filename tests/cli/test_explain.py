"""``mpc-spearman explain``: the table of who learns what, for one plan, with an owner's answer."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from mpc_spearman import learnt, load_plan
from mpc_spearman.cli.main import main
from mpc_spearman.cli.owner_page import beginning, in_first_person
from mpc_spearman.config.wording import spoken
from mpc_spearman.errors import PlanError, PolicyError
from mpc_spearman.identity import Identity
from mpc_spearman.privacy.charges import ChargedRun
from mpc_spearman.privacy.ledger import Ledger
from mpc_spearman.protocols.charge import partner_losses
from support.harness import ROOT
from support.plans import mapping

RANKING, STRENGTHS, CLUSTER, NOISE_ON_INPUTS = (
    str(ROOT / "configs" / f"{name}.yaml") for name in ("ranking", "strengths", "cluster", "noise_on_inputs")
)


def explained(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["explain", *arguments]) == code
    return capsys.readouterr().out


def written(tmp_path: Path, name: str = "plan.yaml", **settings: Any) -> str:
    path = tmp_path / name
    path.write_text(yaml.safe_dump(mapping(cautious=True, **settings)), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("reveal", ["strengths", "coefficients"])
def test_a_noisy_owner_reads_the_cost_and_whom_it_need_not_trust(capsys, reveal):
    settings = (NOISE_ON_INPUTS, f"reveal={reveal}", "privacy.loss=0.5")
    a_text, b_text = (explained(capsys, *settings, "--party", party) for party in "AB")
    assert "With all that the others have of this run, an attacker who" in a_text
    assert "holds whatever the others state or send, and if they collude" in a_text
    assert "The price: noise of 4.9 times chance variation in the coefficient of one column" in a_text
    assert "can read our ranks with our noise on them, and no more" in a_text
    assert not any(text in a_text for text in ("has exact results", "except C", "uses made-up columns"))
    assert "with one party's results" in b_text.lower()
    assert ("has exact results" in b_text) == (reveal == "coefficients")
    everything = explained(capsys, *settings)
    assert "For rows of A it holds if the others lie or collude" in everything
    assert (
        "Rows needed to find a correlation of 0.1 in 8 of 10 samples, with noise on the inputs of A"
        in everything
    )


def test_an_owner_reads_that_names_of_categories_are_sent(capsys):
    plan = str(ROOT / "configs" / "nominal.yaml")
    b_text, a_text = (" ".join(explained(capsys, plan, "--party", party).split()) for party in "BA")
    sentence = "Every category of health, female is a column of its own: who learns names of columns learns"
    assert sentence in b_text
    assert "Categories of fewer than 100 people are one together, named other" in b_text
    assert sentence not in a_text
    for text in (b_text, a_text):
        assert "feature names, with the names of categories that are flags" in text


@pytest.mark.parametrize("setting", ["reveal=strengths", "top=2", "opened_to=target", "estimator=paper"])
def test_an_owners_page_lists_everything_about_its_table_and_nothing_else(capsys, setting):
    digest, purpose, retention, guarantee, needed, *lines = explained(capsys, RANKING, setting).splitlines()
    digest, _, draft = digest.partition(" (draft: ")
    assert draft.startswith("no identity yet of C, B, A;")
    assert digest.replace(" ", "") == f"plan{load_plan(RANKING, [setting]).digest().hex()}"
    assert "not stated" in purpose
    assert "not stated" in retention
    assert guarantee.startswith("Guarantee: with one party's results of this run, an attacker")
    assert "20 × 20 columns about" in needed
    facts = learnt(load_plan(RANKING, [setting]))
    by_party: dict[str, list[str]] = {}
    for line in lines:
        if line.endswith(" learns"):
            by_party[line.partition(",")[0]] = []
        elif "precision of results" not in line:
            by_party[[*by_party][-1]].append(line.strip())
    expected = {
        party: sorted(f"{f['what']} ({f['phase']}, from {f['from']})" for f in facts if f["party"] == party)
        for party in "CBA"
    }
    assert {party: sorted(facts) for party, facts in by_party.items()} == expected


def test_the_coordinator_reads_everything_that_the_plan_reveals(capsys, tmp_path):
    (tmp_path / "C.yaml").write_text("party: C\nkey: C.key\n", encoding="utf-8")
    everything = explained(capsys, CLUSTER)
    assert explained(capsys, CLUSTER, "--local", str(tmp_path / "C.yaml")) == everything
    assert explained(capsys, CLUSTER, "--party", "C") == everything


def test_results_come_before_facts_that_reveal_nothing(capsys):
    lines = explained(capsys, RANKING).splitlines()[5:]
    assert lines[0] == "C, the coordinator, learns"
    assert "the order of the target's features" in lines[1]


def test_the_precision_of_results_is_printed(capsys, tmp_path):
    assert explained(capsys, RANKING).count("the order of strengths with the noise of every owner") == 2
    assert "strengths with the noise of every other owner" in explained(capsys, STRENGTHS)
    noisy = written(tmp_path, "noisy.yaml", results={"target": "coefficients"}, rows=100)
    assert "coefficients with the coordinator's noise" in explained(capsys, noisy)
    but = "with one party's results of this run, except C, whose own are exact, an attacker"
    assert but in explained(capsys, noisy)
    page = explained(capsys, noisy, "--party", "A")
    assert but[1:] in page
    assert "At that limit a party, except C, guesses right at most" in page
    assert "except C" not in explained(capsys, STRENGTHS, "--party", "A")
    assert "exact integers" in explained(capsys, noisy)
    exact = explained(capsys, written(tmp_path, results={"precision": "exact"}))
    assert "Guarantee: none" in exact
    assert "precision of results: exact, without noise\n" in exact


def test_a_plan_without_all_identities_is_a_draft_and_they_are_compared(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    who = {name: str(Identity.new()) for name in "CBA"}
    lines = [f"parties.{role}.identity={who[name]}" for name, role in (("C", "coordinator"), ("B", "target"))]
    assert "draft: no identity yet of A;" in explained(capsys, RANKING, *lines)
    whole = explained(capsys, RANKING, *lines, f"parties.sources.A.identity={who['A']}")
    assert "draft" not in whole
    signable = [*lines, f"parties.sources.A.identity={who['A']}", "purpose=a study", "retention=two years"]
    explained(capsys, RANKING, *signable, "--party", "A", "--html")
    page = (tmp_path / "ranking-A.html").read_text(encoding="utf-8")
    assert "Signature" in page
    assert "Draft" not in page


def test_a_policy_that_agrees_is_printed(capsys):
    assert "  the policy of party A agrees\n" in explained(capsys, RANKING, "--party", "A")


def test_a_policy_that_refuses_gives_its_reasons_and_exit_code(capsys):
    text = explained(capsys, RANKING, "reveal=strengths", "--party", "B", code=6)
    assert PolicyError.exit_code == 6
    assert "max_reveal: ranking at most, but the plan has reveal: strengths" in text
    assert "what others learn from our table" in text  # the page all the same


def test_an_owner_reads_where_its_ledger_is_and_what_is_used(capsys, tmp_path):
    plan = written(tmp_path, reveal="strengths", results={"target": "ranking"})
    local_file, table = tmp_path / "A.yaml", tmp_path / "a.csv"
    pd.DataFrame({"id": range(90), "x": range(90), "y": [*range(45), *range(45)]}).to_csv(table, index=False)
    local_file.write_text("party: A\ntable: a.csv\npolicy: {ledger: A.ledger}\n")
    arguments = (plan, "--local", str(local_file))
    checked = [*arguments, "--other", "3"]
    explained(capsys, *arguments, code=PlanError.exit_code)
    ledger = Ledger.begin(tmp_path / "A.ledger")
    for charged, code in ((0, 0), (2, 0), (4, PolicyError.exit_code)):
        each = (f"{partner} has used {charged} of 4, this run adds 2" for partner in "CB")
        sums = f"{ledger.path}: {'; '.join(each)}"
        text = explained(capsys, *arguments, code=code)
        assert f"the ledger is {sums}" in text
        assert main(["check", *checked]) == code
        assert f"the ledger is {sums}" in capsys.readouterr().out
        assert ("has used 4" in text) == (code != 0)
        assert ("this run adds 2; so this run will be refused" in text) == (code != 0)
        to_each = partner_losses(load_plan(plan), load_plan(plan).roster("A"))
        ledger.charge(ChargedRun(party="A", plan="ab", rows=9, columns=1, told=to_each), 100.0)
    assert "`join` needs one" in explained(capsys, plan, "--party", "A")


@pytest.mark.parametrize("party", ["A", "B"])
@pytest.mark.parametrize(
    "setting", ["reveal=differences", "alignment=intersect", "protocol=he", "opened_to=target"]
)
def test_the_page_to_sign_has_all_that_leaves_its_party(capsys, monkeypatch, tmp_path, party, setting):
    monkeypatch.chdir(tmp_path)
    plan = [RANKING, "reveal=strengths", setting] if setting != "opened_to=target" else [RANKING, setting]
    plan, why = [*plan, "retention=two years"], 'purpose="<b> & why"'
    assert main(["explain", *plan, why, "--party", party, "--html"]) in (0, PolicyError.exit_code)
    page = (tmp_path / f"ranking-{party}.html").read_text(encoding="utf-8")
    assert "&lt;b&gt; &amp; why" in page
    for title in (
        "Who learns which people are ours",
        "What we receive",
        "What stays with us",
        "What protects the results",
        "What is not protected",
        "Draft, not to be signed",
    ):
        assert title in page
    capsys.readouterr()
    main(["explain", *plan, why, "--party", party])
    text = capsys.readouterr().out
    shared = load_plan(RANKING, [*plan[1:], why])
    assert text.startswith(f"plan {spoken(shared.digest())} (draft: ")
    assert text.splitlines()[0].endswith(f", for party {party}")
    for fact in learnt(shared):
        if party in fact["from"].split(", "):
            sentence = in_first_person(fact["what"].removeprefix("nothing: "))
            assert sentence in text or fact["what"] in text
            shown = html.unescape(page)
            assert any(text.replace("`", "") in shown for text in (sentence, fact["what"]))


def signed_page(tmp_path: Path, *settings: str, **local_keys: Any) -> str:
    (tmp_path / "A.yaml").write_text(yaml.safe_dump({"party": "A", **local_keys}), encoding="utf-8")
    local = ["--local", str(tmp_path / "A.yaml"), "--html"]
    assert main(["explain", CLUSTER, "purpose=a study", "retention=two years", *settings, *local]) == 0
    return html.unescape((tmp_path / "cluster-A.html").read_text(encoding="utf-8"))


def test_the_page_to_sign_has_the_parties_own_texts_or_blank_lines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = {"people": "insured in 2019", "legal_basis": "Art. 6 (1) f", "retention": "ten years"}
    shared = ["responsibility=joint controllers", "transfers=none", "parties.target.organisation=A clinic"]
    page = signed_page(tmp_path, *shared, table="insurer.csv", features=["visits"], page=texts)
    for text in (*texts.values(), "joint controllers", "none", "A clinic", "a study", "two years"):
        assert f"<td>{text}</tr>" in page
    assert f"visits of {tmp_path / 'insurer.csv'}; no other column is used" in page
    assert page.count('class="blank"') == 2  # the organisations of C and A
    assert signed_page(tmp_path).count('class="blank"') == 8


def test_the_page_to_sign_begins_with_who_learns_our_ids(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = signed_page(tmp_path, policy={"max_unmatched": 0.5, "lifetime": 3.0})
    first, _, rest_of_page = page.partition('class="first"')[2].partition("</div>")
    assert "B learns which of its own people are also in our table, even if the run stops later" in first
    assert "at most 84% of the time, where a coin is right 50% of the time" in rest_of_page
    assert "about two people at once is right at most 98% of the time" in rest_of_page
    for key, value in (("max_unmatched", "0.5"), ("lifetime", "3"), ("min_rows", "30"), ("exact", "no")):
        assert f"<td>{key}<td>{value}<td>" in rest_of_page
    of_most_ids = "the largest share of another party's ids that may be without a match.</tr>"
    assert of_most_ids in rest_of_page  # a sentence, not a line for each of its lines
    assert "min_key_bits" not in rest_of_page  # under MPC
    assert "X25519" not in rest_of_page
    digest = spoken(load_plan(CLUSTER, ["purpose=a study", "retention=two years"]).digest())
    assert f'content: "draft {digest}"' in page
    same_page = signed_page(tmp_path, "alignment=same")
    assert "B already knows it: all tables have the same people" in same_page
    assert "max_ids" not in same_page


@pytest.mark.parametrize("missing", ["purpose", "retention"])
def test_there_is_no_page_to_sign_without_purpose_and_retention(tmp_path, monkeypatch, capsys, missing):
    monkeypatch.chdir(tmp_path)
    settings = [f"{key}={' ' * (key == missing)!r}" for key in ("purpose", "retention")]
    settings = [setting.replace("''", "text") for setting in settings]
    assert main(["explain", CLUSTER, *settings, "--party", "A", "--html"]) == PlanError.exit_code
    assert f"the page to sign needs the plan's {missing}: write `{missing}: ...`" in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_an_owner_reads_whether_its_columns_are_mixed(capsys):
    for name, mixed in (("explained", "A"), ("canonical", "AB"), ("strengths", "")):
        for party in "AB":
            page = explained(capsys, str(ROOT / "configs" / f"{name}.yaml"), "--party", party)
            assert ("random rotation mixes our columns" in page) == (party in mixed)
            assert ("mixtures of our ranks" in page) == (party in mixed)


def test_a_run_begins_by_printing_what_it_will_reveal(capsys):
    lines = beginning(load_plan(STRENGTHS, ["results.sources=ranking"]), "A")
    assert len(lines) == 3
    assert "C will learn the strengths" in lines[1]
    assert "to B strengths with the noise of every other owner" in lines[2]
    assert "to A ranking of strengths with" in lines[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--party", "C", "--html"], "C is the coordinator"),
        (["--party", "Z"], "has no party 'Z'"),
        (["--html"], "--party"),
        (["top=2", "reveal=coefficients"], "top: 2 is for reveal: ranking only"),
    ],
)
def test_a_plan_that_cannot_be_explained_is_a_plan_error(capsys, arguments, message):
    assert main(["explain", RANKING, *arguments]) == PlanError.exit_code
    assert message in capsys.readouterr().err
