"""How the parties of a run meet and connect: one way for all, through one port at the coordinator.

::

    A ──── meeting, links with C, links with B ────▶ ┌───┐
    B ──── meeting, links with C, links with A ────▶ │ C │   one listening port
                                                     └───┘
    A ════ links, directly, where B or A has `listen` ════ B
    A ──── links, forwarded by C: bytes under TLS of A and B, inside the TLS of each with C ──── B

The workers of one party meet in the same way, with the first one in the coordinator's place.

From the bottom: `addresses` (dialling, also through an HTTP proxy), `nested` and `tls` (who is at the other
end), `handshake` (how a connection begins, and how many unknown callers may wait), `sockets` (the bytes of
the run), `forwarding`, `round` (one attempt of all parties to connect and agree), `control` (the connection
of a meeting), and `meeting` with its two sides, `data_party` and `coordinator`: the lobby, which a party may
leave and join again.
"""
