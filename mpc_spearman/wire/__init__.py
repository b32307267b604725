"""What crosses between parties: who may learn what, messages, frames, links, TLS, keys, and the meter."""
