"""Pictures and words about a schedule: charts, pages, explanations, idle time."""
