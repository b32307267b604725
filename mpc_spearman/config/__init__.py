"""The plan of a run: read, checked, split into what is shared and what stays local, and vetoed by its owners.

`scale` holds the order of levels and grants; `parties` and `sections` the plan's typed parts,
made of `fields`; `plan` the whole and `load_plan`; `contradictions` what does not go together; `yaml_text`
reads what is typed, `draft` puts files and overrides together, `wording` makes sentences of what is wrong,
`policy` holds each owner's veto, and `approval` who has to agree first.
"""

from mpc_spearman.config.approval import Approval, check_approval
from mpc_spearman.config.parties import DataParty, Policy, Query, TargetParty
from mpc_spearman.config.plan import Plan, load_plan, local_party
from mpc_spearman.config.policy import (
    AGREE_TO_ALL,
    check_policy,
    check_policy_columns,
    check_policy_rows,
)
from mpc_spearman.config.scale import GRANTS, LEVELS, OUTSIDE, Grant, Reveal, least, within
from mpc_spearman.config.sections import (
    Estimator,
    HeSettings,
    OpenedTo,
    Order,
    Protocol,
    Results,
    Strength,
    host_and_port,
)
from mpc_spearman.config.table_keys import TableKeys
from mpc_spearman.config.wording import differences, mismatch

__all__ = [
    "AGREE_TO_ALL",
    "GRANTS",
    "LEVELS",
    "OUTSIDE",
    "Approval",
    "DataParty",
    "Estimator",
    "Grant",
    "HeSettings",
    "OpenedTo",
    "Order",
    "Plan",
    "Policy",
    "Protocol",
    "Query",
    "Results",
    "Reveal",
    "Strength",
    "TableKeys",
    "TargetParty",
    "check_approval",
    "check_policy",
    "check_policy_columns",
    "check_policy_rows",
    "differences",
    "host_and_port",
    "least",
    "load_plan",
    "local_party",
    "mismatch",
    "within",
]
