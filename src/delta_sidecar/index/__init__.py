"""The index of a table's files: its format, how it is written, found, checked and cleaned up."""
