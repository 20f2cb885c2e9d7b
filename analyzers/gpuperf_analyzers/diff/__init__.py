"""Before and after: op tables, matched op by op, and what explains the change in step time."""
