"""All cases, in the order in which a job runs them."""

# ruff: noqa: I001, F401  (the order of the imports is the order of the cases)
from case import CASES

import cases_bits
import cases_calls
import cases_dtypes
import cases_fp16
import cases_gradients
import cases_keras
import cases_traffic
import cases_statistics
import cases_training
import cases_models
import cases_membership

__all__ = ["CASES"]
