"""The private computation, by MPC or HE, on the vectors that the data parties contribute."""
