"""Benchmarks: huge generated logs, every reader measured in a process of its own, goals beside the figures."""
