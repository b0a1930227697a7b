"""The version of the package: read by setup.py, by the package and by nothing else."""

__version__ = "0.1.0"
