"""Programs of torch.export, made ready for TVM's importer."""
