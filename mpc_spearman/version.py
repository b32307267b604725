"""The package's version: one place, readable without importing anything else."""

__version__ = "0.3.1.dev0"
