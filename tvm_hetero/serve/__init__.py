"""Requests over the network, served under service-level objectives (Accordion).

It would admit, batch and route requests to built models, so that latencies stay within what was
promised. May import every room below floor 12 (tests/test_floors.py), `online` and `decoders`
included; not `cluster` or `relay`, which are on the same floor.
"""
