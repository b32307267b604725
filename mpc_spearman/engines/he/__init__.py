"""The paper's protocol over homomorphic encryption: the contract of a scheme, two schemes, and the steps."""
