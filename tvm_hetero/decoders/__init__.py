"""Language models as artifacts: built, saved, loaded, decoded."""
