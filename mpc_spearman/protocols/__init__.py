"""The protocols: what the three roles do, step by step."""
