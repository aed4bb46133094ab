"""The tables that README.md and docs/ quote from the results, a file for each page."""
