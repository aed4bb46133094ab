"""What `benchmarks.zoo_of_files` is made of: the files, how they are had, tried and measured."""
