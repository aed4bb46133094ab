"""Relay's text format: lexer, parser, expressions, types."""
