"""What `benchmarks.document_readers` is made of: the readers, and the cases that they are shown."""
