"""64-bit words in as few bytes as they need, and back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_WINDOW = 8


def words_to_bytes(words: NDArray[np.int64] | NDArray[np.uint64], width: int) -> bytes:
    """Return the lowest `width` bytes, 1 to 8, of each word, little-endian, one word after the other."""
    whole = np.ascontiguousarray(words, dtype=words.dtype.newbyteorder("<")).ravel().view("<u8")
    if width in (1, 2, 4, 8):
        return whole.astype(f"<u{width}", copy=False).tobytes()
    # NumPy copies 2 or 4 bytes at a time much faster than 3 or 5. So copy a word's first and last bytes,
    # which may overlap; different words never do.
    part = 4 if width > 4 else 2
    raw = np.empty(len(whole) * width, dtype=np.uint8)
    for start in (0, width - part) if len(whole) else ():
        places = np.ndarray(whole.shape, f"<u{part}", raw.data, start, (width,))
        places[:] = (whole >> np.uint64(8 * start)).astype(places.dtype)
    return raw.tobytes()


def bytes_to_words(raw: bytes | memoryview, width: int) -> NDArray[np.uint64]:
    """Return the words that :func:`words_to_bytes` wrote: uint64 (words,), zeros above `width` bytes."""
    if width in (1, 2, 4, 8):
        return np.frombuffer(raw, dtype=f"<u{width}").astype("<u8", copy=False)
    count = len(raw) // width
    words = np.zeros(count, dtype="<u8")
    fitting = max(0, (len(raw) - _WINDOW) // width + 1)  # words that can be read as 8 bytes of `raw`
    if fitting:
        words[:fitting] = np.ndarray((fitting,), "<u8", raw, 0, (width,))
        words &= np.uint64((1 << 8 * width) - 1)
    for place in range(fitting, count):
        words[place] = int.from_bytes(raw[place * width : (place + 1) * width], "little")
    return words


def bytes_to_ring(raw: bytes | memoryview, width: int) -> NDArray[np.int64]:
    """Return the words that :func:`words_to_bytes` wrote, as integers modulo 2^(8·`width`) nearest to 0."""
    return nearest(bytes_to_words(raw, width).view("<i8"), width)


def nearest(words: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Return words modulo 2^(8·`width`), from -2^(8·`width` - 1) to 2^(8·`width` - 1) - 1; the same shape."""
    shift = 64 - 8 * width
    return (words << shift) >> shift if shift else words


def width_of(bound: int) -> int:
    """Return how many bytes hold every integer of absolute value up to `bound` < 2^63, modulo 2^(8·bytes)."""
    return bound.bit_length() // 8 + 1
