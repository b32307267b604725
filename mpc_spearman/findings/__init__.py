"""What a party's copy of a result holds and says, one module a level.

`findings` is the contract; `forms` has the form of tables, and `sections` what is shown of them. A level
names its class in `mpc_spearman.levels.level.Level.findings`.
"""
