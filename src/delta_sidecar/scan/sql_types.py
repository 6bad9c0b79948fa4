"""The type names that CAST and typed literals know, by the kind of value `scan.casts` makes of them."""

from __future__ import annotations

_SPELLINGS = {
    "BOOLEAN": "BOOL",
    "TINYINT": "BYTE INT1",
    "SMALLINT": "SHORT INT2 INT16",
    "INT": "INTEGER INT4 INT32",
    "BIGINT": "LONG INT64",
    "DECIMAL": "DEC NUMERIC NUMBER FIXED",
    "FLOAT": "REAL FLOAT4",
    "DOUBLE": "FLOAT8",
    "TEXT": "STRING STR CLOB LONGVARCHAR",
    "VARCHAR": "VARCHAR2",
    "CHAR": "CHARACTER",
    "BINARY": "",
    "VARBINARY": "BLOB BYTEA",
    "DATE": "",
    "TIMESTAMP": "",
    "TIMESTAMPTZ": "",
    "TIMESTAMPLTZ": "TIMESTAMP_LTZ",
    "TIMESTAMPNTZ": "TIMESTAMP_NTZ",
    "DATETIME": "",
}
TYPES = {
    "DOUBLE PRECISION": "DOUBLE",
    "CHAR VARYING": "VARCHAR",
    "CHARACTER VARYING": "VARCHAR",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ",
    "TIMESTAMP WITH LOCAL TIME ZONE": "TIMESTAMPLTZ",
    "TIMESTAMP WITHOUT TIME ZONE": "TIMESTAMP",
} | {spelling: name for name, spellings in _SPELLINGS.items() for spelling in (name, *spellings.split())}
"""Every spelling, in capitals and single spaces. INT8 is missing: one byte to some, eight to others."""

MOST_WORDS = max(len(name.split()) for name in TYPES)
