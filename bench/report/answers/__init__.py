"""What to use: readings, judgements against the baseline, crossing points, advice and the settings to copy."""
