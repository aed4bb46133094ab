"""Front ends: one folder for each format in which a model can arrive."""
