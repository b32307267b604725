"""A party's key: its file, its line in the plan, what it signs."""

from __future__ import annotations

import stat
from base64 import b64encode
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from mpc_spearman import identity
from mpc_spearman.cli.main import main
from mpc_spearman.errors import OutputError, PlanError
from mpc_spearman.identity import Identity, identity_text, public_key, verify


def line(public: bytes) -> str:
    return f"ed25519:{b64encode(public).decode()}"


def test_init_makes_a_private_key_and_prints_the_line_for_plans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--party", "B"]) == 0
    printed = capsys.readouterr().out
    key = tmp_path / "B.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    made = Identity.read(key, "key")
    assert printed.splitlines() == [f"identity: {made}", "B.yaml: local settings of B"]
    assert yaml.safe_load((tmp_path / "B.yaml").read_text()) == {"party": "B", "key": "B.key"}
    assert public_key(str(made)) == made.public
    assert "PRIVATE" not in repr(made)
    before = key.read_bytes()
    assert main(["init", "--party", "B"]) == OutputError.exit_code
    assert key.read_bytes() == before
    assert str(made) in capsys.readouterr().err
    assert main(["init", "--party", "../B"]) == PlanError.exit_code


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_key_that_others_may_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    Identity.new().write(tmp_path / "key")
    (tmp_path / "key").chmod(mode)
    with pytest.raises(PlanError, match="chmod go="):
        Identity.read(tmp_path / "key", "key")


def test_files_that_are_no_such_key_are_refused(tmp_path: Path) -> None:
    key = Identity.new().key
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word"))
    other = X25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for content, said in ((b"", "no private key"), (locked, "passphrase"), (other, "another kind")):
        (tmp_path / "key").write_bytes(content)
        (tmp_path / "key").chmod(0o600)
        with pytest.raises(PlanError, match=said):
            Identity.read(tmp_path / "key", "key")
    with pytest.raises(PlanError, match="cannot be read"):
        Identity.read(tmp_path / "none", "key")


def test_another_spelling_of_a_public_key_is_refused() -> None:
    good = str(Identity.new())
    data = good.partition(":")[2]
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    other_bits = data[:42] + last[last.index(data[42]) + 1] + "="  # the same bytes to a lenient reader
    for text in (
        "", data, good[:-1], good + "=", good + "\n", good.upper(), f"ed25519:{other_bits}", line(bytes(31)),
        line(bytes(33)), f"ed25519: {data}",
    ):  # fmt: skip
        with pytest.raises(ValueError, match="is not ed25519"):
            public_key(text)


def test_points_of_small_order_are_refused_and_those_not_on_the_curve() -> None:
    p, d, eighth = identity._P, identity._D, identity._ORDER_8
    # Doubling a point of order 8 gives one of order 4, which has y = 0: y² = -x² on the curve.
    assert (d * eighth**4 + 2 * eighth**2 - 1) % p == 0
    for y in (0, 1, p - 1, eighth, p - eighth):
        for sign in (0, 1 << 255):
            with pytest.raises(ValueError, match="anybody can sign"):
                public_key(line((y + sign).to_bytes(32, "little")))
    with pytest.raises(ValueError, match="not a public key"):
        public_key(line(p.to_bytes(32, "little")))  # another way to write 0
    on_curve = 0
    for y in range(2, 66):
        try:
            public_key(line(y.to_bytes(32, "little")))
            on_curve += 1
        except ValueError:
            continue
    assert 16 < on_curve < 48  # about half of all numbers are the y of a point


def test_signatures_are_for_one_purpose_one_message_and_one_key() -> None:
    one, other = Identity.new(), Identity.new()
    signature = one.sign("approval", b"text")
    assert verify(one.public, "approval", b"text", signature)
    assert not verify(one.public, "record", b"text", signature)
    assert not verify(one.public, "approval", b"texT", signature)
    assert not verify(other.public, "approval", b"text", signature)
    assert not verify(one.public, "approval", b"text", signature[:-1])
    # Where purpose and message meet is part of what is signed.
    assert not verify(one.public, "approval\0te"[:8], b"\0text", signature)
    with pytest.raises(ValueError, match="NUL"):
        one.sign("approval\0", b"text")
    Ed25519PublicKey.from_public_bytes(one.public).verify(
        signature, b"mpc_spearman signature 1\0approval\0text"
    )
    assert identity_text(one.public) == str(one)
