"""How the parties of a run meet and connect: one way for all, through one port at the coordinator.

::

    A ──── meeting, links with C, links with B ────▶ ┌───┐
    B ──── meeting, links with C, links with A ────▶ │ C │   one listening port
                                                     └───┘
    A ════ links, directly, where B or A has `listen` ════ B
    A ──── links, forwarded by C: bytes under TLS of A and B, inside the TLS of each with C ──── B

From the bottom: `addresses` (dialling, also through an HTTP proxy), `connections` (the bytes of the run),
`tls` (which party is at the other end), `handshake` (how a connection begins, and how many unknown callers
may wait), `forwarding`, `attempt` (one attempt of all parties to connect and agree), `control` (a party's
connection to the coordinator while they meet), and `meeting` with its two sides, `data_party` and
`coordinator`. A party may leave the meeting and join it again.
"""
