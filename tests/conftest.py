"""Assertions in shared code say what they compared, as those in tests do."""

import pytest

pytest.register_assert_rewrite("support")
