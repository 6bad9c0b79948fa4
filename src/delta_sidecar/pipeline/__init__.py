"""The writing half, on Spark: ingest into time buckets, the index build, its upkeep. No reader imports it."""
