"""Relay's JSON: graphs of nodes, read without TVM's old classes."""
