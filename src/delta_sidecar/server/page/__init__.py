"""A page to look at a table: its log over time, its index as a map, what a predicate reads, and what is amiss."""
