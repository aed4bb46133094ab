"""What several verbs share: options, consoles, measuring, interruption."""
