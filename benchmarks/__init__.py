"""Our own speed, side by side with what a user would run instead, as ratios of one run."""
