"""The tests under failing/ are there to be seen failing: run them by naming the folder."""

collect_ignore = ["failing"]
