"""What was asked, as spans of OpenTelemetry."""
