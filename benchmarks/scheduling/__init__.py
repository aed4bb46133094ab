"""The suites of ``benchmarks/schedule.py``: one file a question, one function ``rows(small)``."""
