"""``mpc-spearman certs``: a CA and certificates for trials."""

from __future__ import annotations

import argparse
from typing import Any

from mpc_spearman.cli.arguments import path


def add(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "certs",
        help="make a CA and certificates for trials",
        description="Make a CA, and a certificate and a key for each party of a plan, for trials of TLS "
        "between hosts, and say their fingerprints. Organisations with a PKI use their own certificates, "
        "whose Common Name or subjectAltName is the party's name.",
        epilog="Exit codes: 0 done, 2 usage or a name no party can have, 16 a file exists or cannot be "
        "written.",
    )
    parser.add_argument("directory", metavar="DIR", type=path, help="where the files go; no file is replaced")
    parser.add_argument(
        "--parties", required=True, nargs="+", metavar="NAME", help="the parties' names, as in the plan"
    )
    parser.add_argument(
        "--days", type=int, default=365, metavar="N", help="how long they are valid (default: 365)"
    )
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Make the files and say what each is for."""
    from ssl import PEM_cert_to_DER_cert

    from mpc_spearman.wire.certificates import make_certificates
    from mpc_spearman.wire.tls import fingerprint

    made = make_certificates(parsed.directory, parsed.parties, days=parsed.days)
    print(f"For trials, valid for {parsed.days} days:")
    for party, (certificate, key) in made.items():
        print(f"  {certificate}, {key}: for party {party} alone")
        print(f"    {fingerprint(PEM_cert_to_DER_cert(certificate.read_text()))}")
    print(f"  {parsed.directory / 'ca.pem'}: for every party: the CA whose certificates they accept")
    print(
        f"  {parsed.directory / 'ca.key'}: for nobody. Whoever has it can pose as any party, and no "
        "run needs it."
    )
    return 0
