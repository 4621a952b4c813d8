"""What stored trials mean: rates and shares of ceilings, and how numbers grow with size. Verdicts will live here."""
