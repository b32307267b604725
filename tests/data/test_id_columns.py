from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc_spearman.data import id_columns


@pytest.fixture(scope="module", params=[0, 1 << 20], ids=["by their last byte", "all at once"])
def at_once(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(id_columns, "_AT_ONCE", request.param)
        yield


@given(st.lists(st.text("01é\n", min_size=1, max_size=2), min_size=1), st.integers(0, 3))
def test_ids_that_are_there_more_than_once(at_once, ids, start):
    all_copies, later = id_columns.repeated(pa.array(ids, pa.large_string())[start:])
    ids = ids[start:]
    counts = Counter(ids)
    assert all_copies.tolist() == [counts[one] > 1 for one in ids]
    assert later.tolist() == [one in ids[:row] for row, one in enumerate(ids)]
