"""What published numbers reveal: attacks that honest parties can run on their own copy.

Shares on the wire hide every row; published numbers need not. An attack is a function of arrays, by a party
that has only its own table and what it received. They succeed on exact results and fail on published ones:
tests check both. The notebook ``what_is_learnt`` shows some. No run imports them.

=====================  ==================  =================================================================
module                 run by              recovers
=====================  ==================  =================================================================
:mod:`.guess`          any receiver        which of two rows is whose, knowing all else: the best there is
:mod:`.rows`           target or source    ranks of rows that its columns single out together; flagged rows
:mod:`.differences`    C at `differences`  every rank
:mod:`.twister`        any                 that masks come from a Mersenne Twister, as stock CrypTen's do
=====================  ==================  =================================================================

A flag stands for its smaller group: if more than half of the rows have a 1, zeros and ones change places, and
the coefficients change sign. :mod:`.simulated` makes tables and exact coefficients.
"""
