"""Prices of effects: formulas over the values and files of a job, checked when they are saved. No I/O."""
