"""The paper's protocol over homomorphic encryption: one scheme contract, the schemes, and the roles."""
