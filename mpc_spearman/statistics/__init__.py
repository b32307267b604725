"""Coefficients and strengths from exact integers, their evidence, and a reference to test them."""
