"""The meter: what is charged to which phase."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mpc_spearman.wire import meter as meter_module
from mpc_spearman.wire.meter import Meter
from support.processes import resident


class Clock:
    """A clock that `spend` advances."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


def test_an_inner_phase_interrupts_the_outer_one() -> None:
    clock = Clock()
    meter = Meter(clock)
    assert meter.current == "load"
    with meter.phase("multiply"):
        clock.spend(1)
        with meter.phase("share"):
            assert meter.current == "share"
            clock.spend(20)
        assert meter.current == "multiply"
        clock.spend(2)
        with meter.phase("share"):
            clock.spend(30)
    assert meter.current == "load"
    # Nothing is charged twice, nothing is lost.
    spent = {phase: cost.seconds for phase, cost in meter.costs.items() if cost.seconds}
    assert spent == {"multiply": 3, "share": 50}


def test_waiting_is_not_working() -> None:
    clock = Clock()
    meter = Meter(clock)
    with meter.phase("agree"):
        clock.spend(1)
        with meter.waiting():
            clock.spend(20)
        with meter.phase("rank"), meter.waiting():
            clock.spend(30)
    agree, rank = meter.costs["agree"], meter.costs["rank"]
    assert (agree.seconds, agree.wait_seconds) == (1, 20)
    assert (rank.seconds, rank.wait_seconds) == (0, 30)


def test_after_an_error_the_phase_is_still_the_one_it_happened_in() -> None:
    meter = Meter()
    with pytest.raises(ZeroDivisionError), meter.phase("multiply"), meter.phase("share"):
        1 / 0  # noqa: B018
    assert meter.current == "share"
    assert meter.costs["multiply"].seconds >= 0


def test_a_phase_keeps_the_highest_peak_of_memory_so_far() -> None:
    clock = Clock()
    meter = Meter(clock)
    with meter.phase("load"):
        pass
    clock.spend(1)
    before = resident()
    with meter.phase("multiply"):
        np.ones(25_000_000)  # 200 MB, given back at once
        clock.spend(1)
        with meter.phase("share"):
            pass
    load, multiply, share = (meter.costs[name].peak_memory_bytes for name in ("load", "multiply", "share"))
    assert load > 10_000_000
    assert multiply == share >= max(load, before + 190_000_000)


def test_a_kernel_that_reports_no_peak_memory_stops_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as gVisor's, under which many containers run."""
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmSize:\t300 kB\nVmRSS:\t200 kB\n")
    monkeypatch.setattr(meter_module, "_STATUS", status)
    assert meter_module._peak_memory() > 1_000_000
