"""All cases, in the order in which a job runs them."""

from case import CASES
import cases_bits  # noqa: F401
import cases_calls  # noqa: F401
import cases_traffic  # noqa: F401
import cases_training  # noqa: F401
import cases_membership  # noqa: F401  (last: it ends with a join)

__all__ = ["CASES"]
