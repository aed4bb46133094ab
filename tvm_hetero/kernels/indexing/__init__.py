"""What keeps every index that stands in data within the bounds of its tensor."""
