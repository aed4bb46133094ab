"""Makes the site of the pages of docs/: `make docs`."""
