"""The plan of a run: read it, check it, split it into shared and local parts, apply owners' policies.

`levels` holds the order of levels and grants. `parties`, `table_keys` and `sections` are the plan's typed
parts, made of `fields`; `plan` joins them, and picks the settings that decide who learns what (`Terms`).
`load` reads and checks a plan: `yaml_text` reads YAML, `draft` merges files and settings, `contradictions`
finds values that conflict, and `wording` phrases problems. `policy` holds each owner's veto, and
`approval` who must agree first.
"""

from mpc_spearman.config.approval import Approval as Approval
from mpc_spearman.config.approval import check_approval as check_approval
from mpc_spearman.config.levels import GRANTS as GRANTS
from mpc_spearman.config.levels import LEVELS as LEVELS
from mpc_spearman.config.levels import OUTSIDE as OUTSIDE
from mpc_spearman.config.levels import Grant as Grant
from mpc_spearman.config.levels import Reveal as Reveal
from mpc_spearman.config.levels import least as least
from mpc_spearman.config.levels import within as within
from mpc_spearman.config.load import PlanSource as PlanSource
from mpc_spearman.config.load import load_plan as load_plan
from mpc_spearman.config.load import local_party as local_party
from mpc_spearman.config.parties import DataParty as DataParty
from mpc_spearman.config.parties import Policy as Policy
from mpc_spearman.config.parties import Query as Query
from mpc_spearman.config.parties import TargetParty as TargetParty
from mpc_spearman.config.plan import Plan as Plan
from mpc_spearman.config.plan import Terms as Terms
from mpc_spearman.config.policy import AGREE_TO_ALL as AGREE_TO_ALL
from mpc_spearman.config.policy import check_policy as check_policy
from mpc_spearman.config.policy import check_policy_columns as check_policy_columns
from mpc_spearman.config.policy import check_policy_rows as check_policy_rows
from mpc_spearman.config.sections import Estimator as Estimator
from mpc_spearman.config.sections import HeSettings as HeSettings
from mpc_spearman.config.sections import OpenedTo as OpenedTo
from mpc_spearman.config.sections import Order as Order
from mpc_spearman.config.sections import Protocol as Protocol
from mpc_spearman.config.sections import Results as Results
from mpc_spearman.config.sections import Strength as Strength
from mpc_spearman.config.sections import host_and_port as host_and_port
from mpc_spearman.config.table_keys import TableKeys as TableKeys
from mpc_spearman.config.wording import differences as differences
from mpc_spearman.config.wording import mismatch as mismatch
