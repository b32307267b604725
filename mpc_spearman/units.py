"""Times, sizes and other parties' text as people can read them."""

from __future__ import annotations


def human_seconds(seconds: float) -> str:
    """Write a duration in the unit people would use."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def printable(text: str, keep: str = "") -> str:
    """Replace characters that move the cursor, reorder the line or are invisible: names come from others.

    Parameters
    ----------
    text : str
    keep : str
        Characters to leave, such as the line ends between an error's sentences.
    """
    if text.isprintable():  # nearly always
        return text
    return "".join(
        c if c.isprintable() or c in "\u200c\u200d" or c in keep else " " if c.isspace() else "\ufffd"
        for c in text
    )
