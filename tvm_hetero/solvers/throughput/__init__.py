"""A batch divided over devices: shares of elements that approach the bound of the period."""
