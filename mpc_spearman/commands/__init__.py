"""The commands of ``mpc-spearman``, one module each; none imports torch before it runs."""
