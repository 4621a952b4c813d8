"""What stored trials mean: rates and shares of ceilings, growth with size, verdicts of two sides or of a night, and histories."""
