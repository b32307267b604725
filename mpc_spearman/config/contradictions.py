"""Find values of a plan that conflict, although each is valid by itself."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from mpc_spearman.config.levels import FOR_LEVEL, ON_INPUTS, OUTSIDE, PLACES, grants, within
from mpc_spearman.config.parties import DataParty, Query
from mpc_spearman.config.plan import Plan
from mpc_spearman.config.sections import HeSettings, host_and_port
from mpc_spearman.config.wording import Location, dotted, shown

#: For keys of a data party: the values of ``alignment`` under which it can have them.
_ALIGNMENTS = {"aligned": "intersect or ids", "write_aligned": "intersect", "write_unaligned": "intersect"}

#: The location of the value to change, and the reason with what to do.
Conflict = tuple[Location, str]


def contradictions(plan: Plan) -> Iterator[Conflict]:
    """Yield all conflicts between values of a plan."""
    if plan.protocol == "he" and (why := PLACES[plan.reveal].mpc_only):
        yield ("reveal",), f"{shown(plan.reveal)} {why}, which is for protocol: mpc, not 'he'"
    else:  # under he with such a level, changing the level also removes its other conflicts
        yield from _level_conflicts(plan)
        yield from _strongest_conflicts(plan)
        yield from _ranking_conflicts(plan)
    if plan.proofs and (plan.protocol, plan.reveal) != ("mpc", "coefficients"):
        only = "is for protocol: mpc with reveal: coefficients only; change these, or leave it out"
        yield ("proofs",), f"true {only}"
    if plan.protocol == "he":
        yield from _he_conflicts(plan.he, plan.reveal)
    yield from _name_conflicts(plan)
    for place, party in plan.parties.places():
        if isinstance(party, DataParty):
            yield from _owner_conflicts(plan, place, party)
            yield from _adjustment_conflicts(plan, (*place, "adjust"), party)


def _level_conflicts(plan: Plan) -> Iterator[Conflict]:
    reveal, results = plan.reveal, plan.results
    without_coefficients = not within("coefficients", reveal)
    for role, grant in (("target", results.target), ("sources", results.sources)):
        if grant is not None and not within(grant, reveal):
            more = "not what" if {grant, reveal} & {*OUTSIDE} else "more than"
            excess = f"{more} the coordinator has under reveal: {shown(reveal)}"
            yield ("results", role), f"{shown(grant)} is {excess}; allowed: {', '.join(grants(reveal))}"
    if plan.privacy.unit == "value":
        reason = "'value' hides one value at a time, which is defined for granted coefficients alone"
        if without_coefficients:
            yield ("privacy", "unit"), f"{reason}; use unit: row, or reveal: coefficients"
        for role, grant in (("target", results.target), ("sources", results.sources)):
            if not without_coefficients and grant in ("ranking", "strengths"):
                use = f"use unit: row, or results.{role}: coefficients or nothing"
                yield ("privacy", "unit"), f"{reason}; {use}"
    if plan.strength == "mean_abs" and without_coefficients:
        reason = f"needs the coefficients, and reveal: {shown(reveal)} does not give them"
        yield ("strength",), f"'mean_abs' {reason}; use strength: mean, or reveal: coefficients"
    if plan.estimator == "paper" and reveal in OUTSIDE:
        yield ("estimator",), f"'paper' has no meaning at reveal: {shown(reveal)}; use tie_corrected"


def _strongest_conflicts(plan: Plan) -> Iterator[Conflict]:
    results, place = plan.results, ("results", "strongest")
    if results.strongest is None:
        return
    if plan.proofs:
        yield place, f"{results.strongest} is not for proofs: true, whose noise needs no scales; leave it out"
    if not within("coefficients", plan.reveal):
        yield place, f"needs the coefficients, which the coordinator does not have at {shown(plan.reveal)}"
    if results.precision == "exact":
        yield place, "is for results with noise; leave it out under precision: exact"
    if plan.privacy.unit == "value":
        yield place, "hides rows; use privacy.unit: row, or leave it out"
    if any(owner.noise == "inputs" for owner in (plan.parties.target, *plan.parties.sources)):
        yield place, "is for noise on results; leave it out, or noise: inputs"
    if not {results.target, results.sources} & {"coefficients", "strengths", None}:
        yield place, "is for a receiver of coefficients or strengths, and there is none; leave it out"


def _ranking_conflicts(plan: Plan) -> Iterator[Conflict]:
    for key, default in (("top", None), ("opened_to", "coordinator")):
        value, level = getattr(plan, key), FOR_LEVEL[key]
        if value != default and plan.reveal != level:
            yield (key,), f"{shown(value)} is for reveal: {level} only; leave it out"
    if plan.opened_to == "target" and plan.reveal == FOR_LEVEL["opened_to"]:
        why = "the order is opened to the target alone (opened_to)"
        if plan.results.sources != "nothing":
            yield ("results", "sources"), f"{shown(plan.results.sources)}, but {why}; use nothing"
        if plan.results.target == "nothing":
            yield ("results", "target"), f"'nothing', but {why}"


def _he_conflicts(he: HeSettings, reveal: str) -> Iterator[Conflict]:
    if he.scheme == "bfv":
        if find_spec("tenseal") is None:
            how = "pip install tenseal==0.3.18 (there is no wheel for Python 3.10), or he.scheme: paillier"
            yield ("he", "scheme"), f"'bfv' needs TenSEAL, which is not installed here: {how}"
        for key in ("key_bits", "randomness", "form"):
            if (value := getattr(he, key)) != HeSettings.model_fields[key].default:
                yield ("he", key), f"{shown(value)} is for he.scheme: paillier only; leave it out for 'bfv'"
        return
    if he.key_bits not in (2048, 3072) and not he.insecure:
        yield ("he", "key_bits"), f"{he.key_bits} is not 2048 or 3072; other sizes need he.insecure: true"
    elif he.key_bits % 16:
        yield ("he", "key_bits"), f"{he.key_bits} is not a multiple of 16"
    if he.form != "packed" and reveal != FOR_LEVEL["he.form"]:
        only = f"is for reveal: {FOR_LEVEL['he.form']} only"
        yield ("he", "form"), f"{shown(he.form)} {only}; leave it out"


def _name_conflicts(plan: Plan) -> Iterator[Conflict]:
    places: dict[str, str] = {}  # of names and of identities, which cannot be equal
    for place, party in plan.parties.places():
        # Not even by case alone: on some file systems that is one folder.
        first_place = places.setdefault(party.name.casefold(), dotted(place))
        if first_place != dotted(place):
            duplicate = f"{shown(party.name)} is also the name at {first_place}.name"
            yield (*place, "name"), f"{duplicate} (ignoring case); every party needs its own"
        if party.identity and places.setdefault(party.identity, dotted(place)) != dotted(place):
            also = f"is also the identity of {places[party.identity]}"
            yield (*place, "identity"), f"{also}; every party needs its own key"


def _adjustment_conflicts(plan: Plan, place: Location, party: DataParty) -> Iterator[Conflict]:
    """Yield what cannot be adjusted for, and why; residuals take the place of ranks."""
    if not party.adjust:
        return
    if plan.reveal == "differences":
        yield place, "is not for reveal: differences, which opens ranks; use reveal: coefficients"
    if plan.estimator == "paper":
        yield place, "is not for estimator: paper, whose formula is of ranks alone; use tie_corrected"
    if plan.proofs:
        yield place, "is not for proofs: true, which prove ranks; leave one of the two out"
    if plan.privacy.unit == "value":
        why = "as one value of a covariate changes the residuals of many rows; use row"
        yield place, f"is not for privacy.unit: value, {why}"
    for key in ("id", "exclude", "features"):
        for name in party.adjust:
            if name in (getattr(party, key) or ()):
                yield place, f"lists {shown(name)}, which {key} lists too; take it out of one"


def _owner_conflicts(plan: Plan, place: Location, party: DataParty) -> Iterator[Conflict]:
    if party.advertise and not party.listen:
        yield (*place, "advertise"), "needs listen too: where this party listens"
    if party.listen and not party.advertise:
        try:
            host_and_port(party.listen)
        except ValueError as error:
            yield (*place, "listen"), f"{shown(party.listen)} {error}, or give advertise too"
    for key, alignments in _ALIGNMENTS.items():
        if getattr(party, key) is not None and plan.alignment not in alignments.split(" or "):
            yield (*place, key), f"is for alignment: {alignments} only, not {shown(plan.alignment)}"
    if party.noise == "inputs":
        noise = (*place, "noise")
        if plan.reveal not in ON_INPUTS:
            not_here = f"is for reveal: {' or '.join(ON_INPUTS)}, not {shown(plan.reveal)}"
            yield noise, f"'inputs' {not_here}; use results"
        if plan.estimator == "paper":
            why = "whose formula shows tie terms; use tie_corrected"
            yield noise, f"'inputs' is not for estimator: paper, {why}"
        if plan.results.precision == "exact":
            yield noise, "'inputs' is not for results.precision: exact, which has no noise"
        if plan.proofs:
            yield noise, "'inputs' is not for proofs: true, as ranks with noise are no ranks"
    order_matters = plan.alignment == "same" or plan.rows is not None
    if isinstance(party.table, Query) and not party.table.order_by and order_matters:
        under = f"rows: {plan.rows}" if plan.rows is not None else f"alignment: {plan.alignment}"
        yield (*place, "table"), f"needs order_by, the columns that say which row comes first, under {under}"
    if party.missing == "middle" and plan.estimator == "paper":
        how = "use missing: drop_rows, or estimator: tie_corrected"
        yield (*place, "missing"), f"'middle', but eq. 2 (estimator: paper) needs every cell; {how}"
    drops = {"missing": party.missing == "drop_rows", "duplicates": party.duplicates == "drop"}
    for key in (key for key, drop in drops.items() if drop and plan.alignment == "same"):
        why = "others keep, but alignment: 'same' needs the same rows everywhere"
        yield (*place, key), f"leaves out rows that {why}; set alignment: intersect"
