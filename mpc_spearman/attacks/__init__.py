"""What published numbers give away: attacks that parties who follow the protocol can run on their own copy.

Shares on the wire hide every row; the numbers that a run publishes need not. Each module here is one attack
by a party that has its own table and what it received, and nothing else, as a function of arrays. On exact
results they work, on published ones they fail: tests check both. The notebook ``what_is_learnt`` shows some.
No run imports them.

=====================  ==================  =================================================================
module                 run by              recovers
=====================  ==================  =================================================================
:mod:`.guess`          any receiver        which of two rows is whose, knowing all else: the best there is
:mod:`.rows`           target or source    ranks of rows that its columns single out together
:mod:`.programme`      target or source    a rare flag's rows, by linear programme
:mod:`.pools`          target or source    all flags' rows where its own columns lie, also from their means
:mod:`.differences`    C at `differences`  every rank
:mod:`.stopping`       source              bits of the target's ranks from whether a run stops
:mod:`.twister`        any                 that masks come from a Mersenne Twister, as stock CrypTen's do
=====================  ==================  =================================================================

A flag stands for its smaller group: if more than half of the rows have a 1, zeros and ones change places, and
the coefficients change sign. :mod:`.simulated` makes tables and exact coefficients.
"""
