"""Coefficients and strengths from exact integers, what they are evidence of, and the reference for them."""
