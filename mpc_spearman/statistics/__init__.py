"""Coefficients, p-values and strengths from exact integers; the reference they are tested against."""
