"""Of the site that `make docs` makes of docs/."""
