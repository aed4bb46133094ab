"""What `benchmarks.online` is made of: networks, tables, searches, disturbances."""
