"""Commands that write tables: a sample, ingest, and policies for writing."""

from __future__ import annotations

import click

from delta_sidecar.cli import arguments
from delta_sidecar.cli.help import argument, command, one_of, option
from delta_sidecar.cli.interrupts import interrupts
from delta_sidecar.cli.work import working

_SOURCE = "Source"
_TIME = "Time and buckets"
_TABLE = "Table"
_SCHEMA = "Schema and bad records"
_STREAM = "Batches and streams"
_KAFKA = "Kafka"


@command(
    short_help="Write a small Delta table to try the commands on.",
    help="Write a small Delta table to try the other commands on.",
    epilog="Example: sidecar sample ./events, then sidecar build ./events",
)
@argument("directory", "DIR", "A new or empty directory on a local disk.", shell_complete=arguments.complete_place)
@option("--hours", type=click.IntRange(min=1), default=72, metavar="N", help="Hours of telemetry (72).")
@option("--files-per-hour", type=click.IntRange(min=1), default=4, metavar="N", help="Data files per hour (4).")
@option("--rows-per-file", type=click.IntRange(min=1), default=250, metavar="N", help="Rows per data file (250).")
@option("--seed", type=int, default=0, metavar="N", help="Seed of the random values (0).")
@arguments.as_json
@arguments.verbose
def sample(
    directory: str, hours: int, files_per_hour: int, rows_per_file: int, seed: int, json: bool, verbose: bool
) -> None:
    with working(verbose, {}):
        from delta_sidecar.cli.sample import write

        write(directory, hours, files_per_hour, rows_per_file, seed, json)


@command(
    short_help="Add events to a table of time buckets, with Spark.",
    help="Add events to a table that is partitioned by a time bucket, with Spark. Create the table if needed.",
    epilog="Example: sidecar ingest ./landing ./events --time-column ts --bucket hour",
)
@argument(
    "source",
    "SOURCE",
    "Files or a Delta table (a path or URI), kafka://broker/topic, or eventhubs://namespace/hub.",
    shell_complete=arguments.complete_place,
)
@arguments.table
@option(
    "--format",
    "file_format",
    metavar="NAME",
    section=_SOURCE,
    shell_complete=one_of("parquet", "json", "csv", "delta"),
    help="parquet, json, csv or delta; default: by name.",
)
@arguments.pair_option("--read-option", "read_options", section=_SOURCE, help="Option for reading, such as sep=;.")
@option("--time-column", required=True, metavar="NAME", section=_TIME, help="Event time; meta.ts if nested.")
@option("--time-format", metavar="FORMAT", section=_TIME, help="epoch-seconds, -millis, -micros, -nanos, or a pattern.")
@option(
    "--bucket",
    default="hour",
    metavar="NAME",
    section=_TIME,
    shell_complete=one_of("month", "day", "hour", "minute", "second"),
    help="month, day, hour (default), minute or second, in UTC.",
)
@option("--bucket-column", metavar="NAME", section=_TIME, help="Default: _event_hour, _event_day and so on.")
@option(
    "--schema",
    metavar="FILE",
    section=_SCHEMA,
    shell_complete=arguments.complete_file,
    help="The schema of the source: DDL, or Spark's JSON.",
)
@option("--merge-schema", is_flag=True, section=_SCHEMA, help="Add new columns to the table.")
@option("--rescue", is_flag=True, section=_SCHEMA, help="Keep fields that do not fit as JSON in _rescued.")
@option(
    "--bad-rows",
    metavar="TABLE",
    section=_SCHEMA,
    shell_complete=arguments.complete_place,
    help="Write unreadable records to this Delta table.",
)
@option(
    "--target-file-size",
    default="128MB",
    metavar="SIZE",
    section=_TABLE,
    help="Split buckets above this file size (128MB).",
)
@arguments.pair_option(
    "--table-property", "table_properties", section=_TABLE, help="Property of a new table; repeatable."
)
@option(
    "--index",
    default="checkpoint",
    metavar="WHEN",
    section=_TABLE,
    shell_complete=one_of("checkpoint", "always", "never"),
    help="Index at checkpoint (default), always or never.",
)
@arguments.progress_of_stream(_STREAM)
@option(
    "--value-format",
    metavar="NAME",
    section=_KAFKA,
    shell_complete=one_of("json", "csv", "text", "avro"),
    help="json (default), csv, text or avro.",
)
@option(
    "--avro-schema",
    multiple=True,
    metavar="FILE",
    section=_KAFKA,
    shell_complete=arguments.complete_file,
    help="Schema FILE, or 17=FILE for id 17 of a registry.",
)
@option(
    "--kafka-columns",
    metavar="A,B",
    section=_KAFKA,
    help="Add columns: key, key_bytes, topic, partition, offset, timestamp, headers.",
)
@option("--starting-offsets", metavar="WHERE", section=_KAFKA, help="earliest (default), latest, a time, or JSON.")
@option("--ending-offsets", metavar="WHERE", section=_KAFKA, help="latest (default), or JSON; batches only.")
@option(
    "--kafka-config",
    metavar="FILE",
    section=_KAFKA,
    shell_complete=arguments.complete_file,
    help="File of consumer properties, including secrets.",
)
@arguments.spark
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def ingest(
    source: str,
    table: str,
    file_format: str | None,
    read_options: dict[str, str],
    time_column: str,
    time_format: str | None,
    bucket: str,
    bucket_column: str | None,
    schema: str | None,
    merge_schema: bool,
    rescue: bool,
    bad_rows: str | None,
    target_file_size: str,
    table_properties: dict[str, str],
    index: str,
    app_id: str | None,
    batch_id: int | None,
    stream: bool,
    checkpoint_location: str | None,
    every: str | None,
    value_format: str | None,
    avro_schema: tuple[str, ...],
    kafka_columns: str | None,
    starting_offsets: str | None,
    ending_offsets: str | None,
    kafka_config: str | None,
    master: str | None,
    conf: dict[str, str],
    json: bool,
    verbose: bool,
    stores: dict[str, str],
) -> None:
    interrupts.clean_up_first()
    secrets = conf | stores
    with working(verbose, secrets):
        from delta_sidecar.cli.ingest import Messages, Order, index_when, run

        messages = Messages(value_format, kafka_columns, starting_offsets, ending_offsets, avro_schema, kafka_config)
        order = Order(
            source,
            table,
            time_column,
            bucket=bucket,
            bucket_column=bucket_column,
            file_format=file_format,
            read_options=read_options,
            target_file_size=target_file_size,
            schema_file=schema,
            time_format=time_format,
            merge_schema=merge_schema,
            rescue=rescue,
            bad_rows=bad_rows,
            app_id=app_id,
            batch_id=batch_id,
            table_properties=table_properties,
            index=index_when(index),
            stream=stream,
            checkpoint_location=checkpoint_location,
            every=every,
            storage_options=stores,
            messages=messages,
        )
        secrets |= {} if order.topics is None else order.topics.secrets
        run(order, master, conf, json, verbose)


@command(
    short_help="Check a policy for writing, and show what it does.",
    help="Check a policy file, and show the options, settings and properties that it turns into.",
    epilog="Example: sidecar policy check events.toml --table ./events",
)
@argument("action", "check", "The only action.", type=click.Choice(["check"]))
@argument("file", "FILE", "A .toml or .json file.", shell_complete=arguments.complete_file)
@option("--table", metavar="TABLE", section=arguments.WHAT, help="Also check that the policy fits this table.")
@arguments.as_json
@arguments.verbose
@arguments.storage_option
def policy(action: str, file: str, table: str | None, json: bool, verbose: bool, stores: dict[str, str]) -> None:
    with working(verbose, stores):
        from delta_sidecar.cli.policy import check_policy

        check_policy(file, table, stores, json)
