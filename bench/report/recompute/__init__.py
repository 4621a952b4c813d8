"""What a page states, marked and embedded when it is written, and computed again by `bench verify`."""
