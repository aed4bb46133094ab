"""Placements that fit: weights spread until every device has room."""
