"""What is served: models by name and version, and what runs their queries."""
