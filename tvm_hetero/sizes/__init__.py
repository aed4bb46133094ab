"""Models of open dimensions: one folder that serves every size of a range (`sizes.folder`)."""
