"""What crosses between parties: who may learn what, messages, frames, links, keys, and the meter."""
