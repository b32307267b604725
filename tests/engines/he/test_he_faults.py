"""A role that is killed in one of the homomorphic protocol's own phases: the others end, nothing is left."""

from __future__ import annotations

import pytest

from launch.test_faults import RunWith, check_killed, check_raised
from launch.test_faults import run_with as run_with
from mpc_spearman.errors import MpcSpearmanError

HE = {"protocol": "he", "he": {"key_bits": 512, "insecure": True, "randomness": "short"}}
MATRIX = [("A", "keys"), ("A", "encrypt"), ("B", "keys"), ("B", "evaluate"), ("C", "keys"), ("C", "decrypt")]
SHORT = ("B", "evaluate")

every_phase = pytest.mark.parametrize(
    ("party", "phase"),
    [pytest.param(*case, marks=() if case == SHORT else pytest.mark.long) for case in MATRIX],
)


@every_phase
def test_killed(run_with: RunWith, party: str, phase: str) -> None:
    check_killed(run_with("on_phase", settings=HE, party=party, phase=phase, act="kill"), party, phase)


@pytest.mark.long
@every_phase
def test_raising(run_with: RunWith, party: str, phase: str) -> None:
    after = run_with("on_phase", settings=HE, party=party, phase=phase, act="memory")
    check_raised(after, party, phase, MpcSpearmanError)
