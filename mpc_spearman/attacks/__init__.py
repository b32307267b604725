"""What published numbers give away: attacks that parties who follow the protocol can run on their own copy.

Shares on the wire hide every row; the numbers a run publishes need not. Each module here is one attack by a
party that has its own table and what it received, and nothing else, as a function of arrays. They are in the
package, beside the rules of :mod:`mpc_spearman.privacy` that they measure, because whoever answers for a
table may want to try them on it, and the notebook ``what_is_learnt`` does. No run imports them.

=====================  ==================  =================================================================
module                 run by              recovers
=====================  ==================  =================================================================
:mod:`.integrality`    target or source    that a column is binary, and its class sizes, when exact
:mod:`.mean`           target or C         every coefficient of two flags from exact means
:mod:`.few_rows`       target or source    the last two to four flagged rows, by meeting in the middle
:mod:`.programme`      target or source    a rare flag's rows, by linear programme
:mod:`.lattice`        target or source    any flag's rows in a small table, by lattice reduction
:mod:`.pools`          target or source    all flags' rows where its own columns lie, also from their means
:mod:`.rows`           target or source    ranks of rows that its columns single out together, and how well
:mod:`.differences`    C at `differences`  every rank
:mod:`.stopping`       source              bits of the target's ranks from whether a run stops
:mod:`.twister`        any                 that masks come from a Mersenne Twister, as stock CrypTen's do
=====================  ==================  =================================================================

Flags are told by their smaller group: of more than half the rows the zeros take the part of the ones, and the
coefficients change sign. :mod:`.simulated` makes tables and what is published about them.
"""
