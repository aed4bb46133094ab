"""Prepared forms of a problem, each made once for many solvers and bounds."""
