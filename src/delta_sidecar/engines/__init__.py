"""Engines that read a table through its index: DuckDB, Polars, DataFusion, Spark, Kusto, and any reader of datasets."""
