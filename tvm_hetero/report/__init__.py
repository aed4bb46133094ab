"""Reports for people and machines: charts, tables, pages and traces. No TVM below here."""
