"""Plumbing that knows nothing of networks: units, documents, tables of text, statistics, files."""
