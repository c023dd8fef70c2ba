"""The rules and the values: no I/O, no clock, no framework."""
