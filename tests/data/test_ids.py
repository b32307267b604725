"""The target's key and its tag of the row ids: made once, kept by the target, sent to nobody."""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mpc_spearman import load_plan
from mpc_spearman.config import Plan
from mpc_spearman.data.ids import alignment_tag, id_digest, id_help
from mpc_spearman.errors import PlanError
from support.faults import on_progress
from support.in_memory import run_in_memory
from support.plans import SMALL, plan
from support.processes import full_disk
from support.tables import id_array

IDS = id_array(["p2", "pé", "p1"])


def test_the_key_is_made_once_and_its_owners_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        first = alignment_tag(tmp_path / "key", IDS)
    finally:
        os.umask(old)
    key = (tmp_path / "key").read_bytes()
    assert len(key) == 32
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert alignment_tag(tmp_path / "key", IDS) == first
    assert (tmp_path / "key").read_bytes() == key
    assert [path.name for path in tmp_path.iterdir()] == ["key"]
    assert alignment_tag(tmp_path / "other", IDS) != first


def test_the_tag_is_the_stated_hmac(tmp_path: Path) -> None:
    key = bytes(range(32))
    (tmp_path / "key").write_bytes(key)
    (tmp_path / "key").chmod(0o600)
    # Another label would make every earlier result impossible to merge.
    inner = hmac.new(key, b"mpc_spearman alignment 2", "sha256").digest()
    texts = ["b", "ä", "a", "z", "\U0001f600", "\uffee", "A", "10", "9", ""]
    message = len(texts).to_bytes(8, "big")
    for one in sorted(text.encode() for text in texts):
        message += len(one).to_bytes(8, "big") + one
    expected = hmac.new(inner, message, hashlib.sha256).hexdigest()
    assert alignment_tag(tmp_path / "key", id_array(texts)) == expected


def test_runs_that_start_together_use_one_key(tmp_path: Path) -> None:
    tags: list[str] = []
    start = threading.Barrier(8)

    def run() -> None:
        start.wait()
        tags.append(alignment_tag(tmp_path / "key", IDS))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tags) == 8
    assert len(set(tags)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


# ---- what is refused


@pytest.mark.parametrize("size", [0, 31, 33, 65])
def test_a_file_that_is_no_key(size: int, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"k" * size)
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(PlanError, match=r"alignment_key: .*key is not a file of 32 bytes"):
        alignment_tag(tmp_path / "key", IDS)
    assert (tmp_path / "key").read_bytes() == b"k" * size


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_a_key_that_others_may_touch(mode: int, tmp_path: Path) -> None:
    alignment_tag(tmp_path / "key", IDS)
    (tmp_path / "key").chmod(mode)
    with pytest.raises(PlanError, match="chmod go="):
        alignment_tag(tmp_path / "key", IDS)


def test_a_place_that_cannot_hold_a_key(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="neither read nor created: No such file or directory"):
        alignment_tag(tmp_path / "none" / "key", IDS)
    with pytest.raises(PlanError, match="Is a directory"):
        alignment_tag(tmp_path, IDS)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(PlanError, match="is not a file"):  # and does not wait for a writer
        alignment_tag(tmp_path / "pipe", IDS)


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="File too large"), full_disk():
        alignment_tag(tmp_path / "key", IDS)
    assert list(tmp_path.iterdir()) == []


# ---- in a plan and in a run


def frames() -> dict[str, pd.DataFrame]:
    values = np.random.default_rng(5).normal(size=(2, 20))
    ids = [f"p{i}" for i in range(20)]
    return {
        name: pd.DataFrame({"id": ids, name.lower(): row}) for name, row in zip("AB", values, strict=True)
    }


def plan_with_key(key: Path, **settings: Any) -> Plan:
    return load_plan(plan(**settings).model_dump(mode="json"), [f"parties.target.alignment_key={key}"])


@pytest.mark.parametrize("protocol", ["mpc", "he"])
def test_only_the_targets_own_result_has_the_tag(protocol: str, tmp_path: Path) -> None:
    key, out = tmp_path / "b.key", tmp_path / "out"
    chosen = plan_with_key(key, protocol=protocol, he=SMALL)
    results = run_in_memory(chosen, frames()).results
    tag = alignment_tag(key, id_array([f"p{i}" for i in range(20)]))
    assert {name: results[name].alignment for name in "CBA"} == {"C": None, "B": tag, "A": None}
    secret = key.read_bytes()
    for party, result in results.items():
        for path in result.save(out / party).iterdir():
            data = path.read_bytes()
            assert secret not in data
            assert secret.hex().encode() not in data
            assert b"b.key" not in data
            assert (tag.encode() in data) == (party == "B" and path.name == "result.json")


def test_an_unusable_key_stops_the_run_before_any_data_moves(tmp_path: Path) -> None:
    (tmp_path / "b.key").write_bytes(b"short")
    reached: set[str] = set()
    watch = partial(on_progress, watch=reached.add)
    ended = run_in_memory(plan_with_key(tmp_path / "b.key"), frames(), {"B": watch})
    error = ended.errors["B"]
    assert type(error) is PlanError
    assert "alignment_key" in str(error)
    assert "load" in reached
    assert "agree" not in reached


@pytest.mark.parametrize("times", [1, 15_000], ids=["a few", "more than are digested at a time"])
def test_id_digest_is_the_documented_hmac(times: int) -> None:
    ids = ["007", "é", "", "x" * 300, "0"] * times
    texts = [one.encode() for one in ids]
    message = b"".join([len(ids).to_bytes(8, "big"), *(len(one).to_bytes(8, "big") + one for one in texts)])
    expected = hmac.new(b"key", message, hashlib.sha256).digest()
    assert id_digest(id_array(ids), b"key") == expected
    assert id_digest(id_array(["before", *ids, "after"]).slice(1, len(ids)), b"key") == expected


def test_likely_problems_of_ids_are_counted_and_no_id_is_shown():
    odd = pa.array(["p1", " p2", "P3 ", "p4", "007", "8.0", "cafe\u0301", "p\u200b9"], pa.large_string())
    text = id_help(odd)
    assert text.removeprefix("Of the 8 ids here, ").split(", ", 4) == [
        "2 have spaces around them (normalise: [strip])",
        "1 have zero-width characters (normalise: [strip])",
        "1 are not in Unicode's normal form NFC (normalise: [nfkc])",
        "1 have upper-case letters (normalise: [casefold])",
        "1 begin with 0, which others may have lost (normalise: [unpad]), "
        "1 look like numbers written as text, such as 7.0 or 1e3",
    ]
    marked = id_help(id_array(["12-345", "123/4", "K-7"]))
    assert "2 have marks between digits (normalise: [digits])" in marked
    lost = id_array(["7", "80", "900", "p1"])
    assert id_help(lost[:2], lost[2:]) == (
        "Of the 2 ids here, 2 have fewer digits than the longest, as if zeros were lost (normalise: [unpad])"
    )
    assert id_help(lost[:2], lost[1:]) == ""  # of what is common some are shorter too
    assert id_help(odd, odd[2:]) == ""
    assert id_help(odd[:3], odd[1:2]).endswith(" here, 1 have upper-case letters (normalise: [casefold])")
    assert id_help(pa.array(["p1", "p2"], pa.large_string())) == ""
    assert id_help(pa.array([], pa.large_string())) == ""
