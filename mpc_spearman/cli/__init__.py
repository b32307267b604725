"""The commands of ``mpc-spearman``, one module each; `main` is the entry point."""
