"""Devices behind TVM's RPC: a client, a session, and a worker process for each."""
