"""Can this machine measure, and how to mend what it cannot."""
