"""The meter: what is charged to which phase."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from mpc_spearman.wire.meter import COLUMNS, PHASES, Meter


class Clock:
    """A clock that goes on when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


def test_the_columns_are_those_of_the_documented_file() -> None:
    assert ",".join(COLUMNS) == (
        "party,phase,seconds,wait_seconds,bytes_sent,bytes_received,messages,rounds,peak_memory_bytes"
    )


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


def test_a_phase_entered_again_adds_to_itself() -> None:
    clock = Clock()
    meter = Meter(clock)
    for _ in range(3):
        with meter.phase("reveal"):
            clock.spend(2)
    assert meter.costs["reveal"].seconds == 6


def test_after_an_error_the_phase_is_still_the_one_it_happened_in() -> None:
    meter = Meter()
    with pytest.raises(ZeroDivisionError), meter.phase("multiply"), meter.phase("share"):
        1 / 0  # noqa: B018
    assert meter.current == "share"
    assert meter.costs["multiply"].seconds >= 0


def test_counts_go_to_the_phase_of_the_message_wherever_the_party_is() -> None:
    meter = Meter()
    with meter.phase("rank"):
        meter.sent("agree", 100)
        meter.sent("agree", 20)
        meter.received("agree", 7)
        meter.received("keep-alive", 24)
    agree = meter.costs["agree"]
    assert (agree.messages, agree.bytes_sent, agree.bytes_received) == (2, 120, 7)
    assert meter.costs["keep-alive"].bytes_received == 24
    assert meter.costs["keep-alive"].messages == 0
    assert meter.costs["rank"].bytes_sent == 0


def test_rounds_are_the_hops_by_which_the_longest_chain_grew() -> None:
    meter = Meter()
    with meter.phase("agree"):
        meter.follow(0)
        meter.follow(0)
    with meter.phase("reveal"):
        meter.follow(4)
        meter.follow(2)
    assert meter.depth == 5
    assert meter.costs["agree"].rounds == 1
    assert meter.costs["reveal"].rounds == 4
    assert sum(cost.rounds for cost in meter.costs.values()) == meter.depth


def test_link_threads_may_count_at_once() -> None:
    meter = Meter()

    def count() -> None:
        for _ in range(20_000):
            meter.sent("share", 1)
            meter.received("share", 2)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    share = meter.costs["share"]
    assert (share.messages, share.bytes_sent, share.bytes_received) == (80_000, 80_000, 160_000)


needs_proc = pytest.mark.skipif(
    not os.access("/proc/self/clear_refs", os.W_OK), reason="peaks can only be reset on Linux"
)


@needs_proc
def test_the_peak_of_memory_is_charged_to_the_phase_it_was_reached_in() -> None:
    meter = Meter()
    with meter.phase("load"):
        pass
    with meter.phase("rank"):
        np.ones(25_000_000)  # 200 MB, given back at once
    with meter.phase("align"):
        pass
    load, rank, align = (meter.costs[phase].peak_memory_bytes for phase in ("load", "rank", "align"))
    assert load > 10_000_000
    assert rank > load + 150_000_000
    assert align < rank - 150_000_000


@needs_proc
def test_an_inner_phase_keeps_its_peak_and_the_outer_one_its_own() -> None:
    meter = Meter()
    with meter.phase("multiply"):
        np.ones(25_000_000)
        with meter.phase("share"):
            pass
    multiply, share = meter.costs["multiply"].peak_memory_bytes, meter.costs["share"].peak_memory_bytes
    assert multiply > share + 150_000_000


@needs_proc
@pytest.mark.parametrize(("spent", "charged"), [(0.0, "multiply"), (1.0, "share")])
def test_phases_within_another_that_go_by_fast_share_looks_at_memory(spent: float, charged: str) -> None:
    clock = Clock()
    meter = Meter(clock)
    with meter.phase("multiply"):
        with meter.phase("share"):
            pass
        with meter.phase("share"):
            np.ones(25_000_000)
            clock.spend(spent)
    peaks = {phase: meter.costs[phase].peak_memory_bytes for phase in ("multiply", "share")}
    other = peaks["share" if charged == "multiply" else "multiply"]
    assert peaks[charged] > other + 150_000_000
    assert other > 10_000_000  # looked at once, at least


def test_the_table_has_a_row_for_every_phase_in_order() -> None:
    clock = Clock()
    meter = Meter(clock)
    meter.sent("publish", 11)
    with meter.phase("publish"):
        clock.spend(3)
    seconds, counts = meter.table()
    assert (seconds.shape, seconds.dtype) == ((len(PHASES), 2), np.float64)
    assert (counts.shape, counts.dtype) == ((len(PHASES), 5), np.int64)
    row = PHASES.index("publish")
    assert seconds[row, 0] == meter.costs["publish"].seconds == 3
    assert counts[row].tolist()[:4] == [11, 0, 1, 0]
    assert counts[:, 0].sum() == 11
