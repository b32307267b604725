"""Certificates for trials: what is in them, what is written, what is refused."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256

from mpc_spearman.cli.main import main
from mpc_spearman.errors import OutputError, PlanError
from mpc_spearman.wire.certificates import authority, issue, make_certificates
from mpc_spearman.wire.tls import Credentials, check_own

FILES = ["A.key", "A.pem", "ca.key", "ca.pem", "Ward 3.key", "Ward 3.pem"]


def listing(folder: Path) -> list[str]:
    return sorted((path.name for path in folder.iterdir()), key=str.casefold)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_every_party_can_use_what_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "certs"
    made = make_certificates(folder, ["A", "Ward 3"], days=7)
    assert listing(folder) == FILES
    for party, (certificate, key) in made.items():
        check_own(Credentials(folder / "ca.pem", certificate, key), party)
        read = x509.load_pem_x509_certificate(certificate.read_bytes())
        assert timedelta(days=7) < read.not_valid_after_utc - read.not_valid_before_utc < timedelta(days=8)


def test_keys_are_their_owners_alone(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        make_certificates(tmp_path / "certs", ["A"])
    finally:
        os.umask(old)
    assert mode(tmp_path / "certs") == 0o700
    for path in (tmp_path / "certs").iterdir():
        assert mode(path) == (0o600 if path.suffix == ".key" else 0o644)


def test_two_calls_have_nothing_in_common(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_certificates(tmp_path / name, ["A"])
    for file in listing(tmp_path / "one"):
        assert (tmp_path / "one" / file).read_bytes() != (tmp_path / "two" / file).read_bytes()


def test_openssl_itself_takes_them_at_its_strictest(tmp_path: Path) -> None:
    make_certificates(tmp_path, ["A"])
    for purpose in ("sslserver", "sslclient"):
        command = ["openssl", "verify", "-x509_strict", "-purpose", purpose, "-CAfile", "ca.pem", "A.pem"]
        try:
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        except FileNotFoundError:
            pytest.skip("there is no openssl command here")
        assert done.returncode == 0, done.stderr


def test_a_party_cannot_certify_others(tmp_path: Path) -> None:
    made = make_certificates(tmp_path, ["A"])
    read = x509.load_pem_x509_certificate(made["A"][0].read_bytes())
    assert read.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["urn:mpc-spearman:party:A"]
    usage = read.extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.digital_signature
    assert not usage.key_cert_sign
    ca = x509.load_pem_x509_certificate((tmp_path / "ca.pem").read_bytes())
    constraints = ca.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)
    start, end = read.not_valid_before_utc, read.not_valid_after_utc
    assert issue(authority(start, end), "A", start, end).certificate.issuer == ca.subject


# ---- what is refused


@pytest.mark.parametrize("there", FILES)
def test_no_file_is_replaced_and_none_is_left_half_made(there: str, tmp_path: Path) -> None:
    (tmp_path / there).write_text("mine")
    with pytest.raises(OutputError, match="exists and is not replaced") as caught:
        make_certificates(tmp_path, ["A", "Ward 3"])
    assert there in str(caught.value)
    assert listing(tmp_path) == [there]
    assert (tmp_path / there).read_text() == "mine"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_nothing(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def failing(path: Any, *arguments: Any, **named: Any) -> int:
        if str(path).endswith("A.key"):
            raise error
        return real(path, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", failing)
        with pytest.raises((OutputError, KeyboardInterrupt)):
            make_certificates(tmp_path / "certs", ["A"])
    assert listing(tmp_path) == []


def test_a_file_in_the_directorys_place(tmp_path: Path) -> None:
    (tmp_path / "certs").write_text("mine")
    with pytest.raises(OutputError, match="cannot write certificates"):
        make_certificates(tmp_path / "certs", ["A"])
    assert (tmp_path / "certs").read_text() == "mine"


@pytest.mark.parametrize(
    ("parties", "message"),
    [
        ([], "for whom"),
        (["A", "A"], "would share the files of party 'A'"),
        (["A", "a"], "would share the files of party 'A'"),
        (["CA"], "would share the files of the CA"),
        (["A/B"], "cannot be a folder's name"),
        (["A\n"], "starts or ends with a space"),
        (["x" * 65], "at most 64"),
        (["é" * 40], "80 bytes of UTF-8"),
    ],
)
def test_names_that_cannot_be(parties: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=message):
        make_certificates(tmp_path / "certs", parties)
    assert listing(tmp_path) == []


@pytest.mark.parametrize("days", [0, -1, 40000])
def test_days_that_cannot_be(days: int, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="1 to 36500 days"):
        make_certificates(tmp_path, ["A"], days=days)


# ---- the command


def test_the_command_says_what_each_file_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["certs", "certs", "--parties", "A", "Ward 3", "--days", "30"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "valid for 30 days" in out
    for file in FILES:
        assert f"certs/{file}" in out
    assert "ca.key: for nobody" in out
    for party in ("A", "Ward 3"):
        pem = (tmp_path / "certs" / f"{party}.pem").read_bytes()
        digest = x509.load_pem_x509_certificate(pem).fingerprint(SHA256()).hex()
        assert re.search(f"{party}.key: for party {party} alone\\n +sha256:{digest}\\n", out)
    assert "PRIVATE" not in out
    assert main(["certs", "certs", "--parties", "A"]) == OutputError.exit_code
    assert "is not replaced" in capsys.readouterr().err
