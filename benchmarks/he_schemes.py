"""Compare ways to encrypt: core-seconds of all roles for one pair of columns, at ``reveal: differences``.

    python benchmarks/he_schemes.py [--rows 1000] [--key-bits 2048]

Literal Paillier (one ciphertext per rank), packed Paillier with full and with short randomness, and BFV do
the same job in one run on one core: the source's encryption, the target's encryption, subtraction and export,
and the coordinator's decryption, checked against the plaintext. Key generation is shown apart. Processor
time is counted, so the ratios hold on a busy machine. A ciphertext that is not full, as of BFV at 1,000 rows,
takes as many bytes as one that is; both are shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import measuring
import numpy as np

from mpc_spearman.config import HeSettings
from mpc_spearman.engines.he.scheme import Sizes
from mpc_spearman.engines.he.schemes import public_key, secret_key

#: Speed wanted, relative to literal, and bytes wanted per rank.
TARGETS = {"packed, full": (50, 6), "packed, short": (300, 6), "BFV": (5000, 55)}


def main() -> None:
    """Measure every way and print a table."""
    parser = measuring.parser(__doc__, writes=False)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--key-bits", type=int, default=2048)
    options = parser.parse_args()
    paillier = HeSettings(key_bits=options.key_bits, insecure=options.key_bits < 2048)
    ways = {
        "literal": paillier.model_copy(update={"form": "literal"}),
        "packed, full": paillier,
        "packed, short": paillier.model_copy(update={"randomness": "short"}),
        "BFV": HeSettings(scheme="bfv"),
    }
    print(f"n = {options.rows:,}, Paillier at {options.key_bits} bits")
    heads = {"key": 10, "core-seconds": 14, "literal /": 12, "wanted": 8, "bytes/rank": 12, "if full": 9}
    print(" " * 14 + "".join(f"{head:>{width}}" for head, width in heads.items()) + f"{'wanted':>8}")
    literal = 0.0
    for name, settings in ways.items():
        key, seconds, size, full = measure(settings, options.rows)
        literal = literal or seconds
        speed, most = TARGETS.get(name, (1, 0))
        print(
            f"{name:14}{key:>8.2f} s{seconds:>14.4f}{literal / seconds:>12,.0f}{speed:>8,}{size:>12.1f}"
            f"{full:>9.1f}{most or '':>8}"
        )


def measure(settings: HeSettings, n: int) -> tuple[float, float, float, float]:
    """Return seconds for the key, core-seconds for all else, and bytes per rank, sent and if full."""
    rng = np.random.default_rng(0)  # data, not secrets
    a, b = (2 * rng.permutation(n) - (n - 1) for _ in range(2))
    sizes = Sizes(n, 1, 1, n - 1, n - 1, n * (n - 1), 2 * (n - 1))
    secret, seconds_for_key = timed(lambda: secret_key(settings, sizes, "differences"))
    public = public_key(secret.public.to_bytes(), settings, sizes, "differences")
    public.encrypt(np.zeros(1, dtype=np.int64))  # tables a key makes once

    def chunks(column: np.ndarray) -> list[np.ndarray]:
        return [column[start : start + public.slots] for start in range(0, n, public.slots)]

    def everything() -> tuple[np.ndarray, int]:
        sent = [public.dump(each) for each in public.encrypt_many(chunks(a))]
        differences = public.subtract_many(public.load_many(sent), public.encrypt_many(chunks(b)))
        exported = public.export_many(differences, rerandomise=settings.form == "packed")
        opened = secret.decrypt_many(exported, [len(chunk) for chunk in chunks(a)])
        return np.concatenate(opened), sum(map(len, sent))

    (opened, size), seconds = timed(everything)
    assert np.array_equal(opened, a - b)
    return seconds_for_key, seconds, size / n, public.ciphertext_bytes / public.slots


def timed(work: Callable[[], object]):  # type: ignore[no-untyped-def]
    """Return what `work` gives and the processor seconds it took; repeated while it is short."""
    start, times = time.process_time(), 0
    while times == 0 or time.process_time() - start < 0.2:
        result = work()
        times += 1
    return result, (time.process_time() - start) / times


if __name__ == "__main__":
    main()
