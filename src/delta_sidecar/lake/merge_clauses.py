"""The clauses of a merge, and values by column, as SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from delta_sidecar.lake.sql_fragments import fragment, new_value
from delta_sidecar.values.bucket_columns import quoted


@dataclass(frozen=True, slots=True)
class MergeClause:
    """One WHEN clause of a merge. In its SQL the table is `t` and the source is `s`.

    Example:
        >>> from delta_sidecar.lake import MergeClause
        >>> print(MergeClause.update({"name": "s.name"}, condition="s.at > t.at").sql)
        WHEN MATCHED AND (s.at > t.at) THEN UPDATE SET `name` = (s.name)
    """

    when: Literal["MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"]
    then: Literal["UPDATE", "INSERT", "DELETE"]
    values: Mapping[str, str] | None = None
    """Columns and SQL expressions; None takes all columns of the source by name."""
    condition: str | None = None

    @classmethod
    def update(cls, values: Mapping[str, str] | None = None, *, condition: str | None = None) -> MergeClause:
        """Change rows that are in both."""
        return cls("MATCHED", "UPDATE", values, condition)

    @classmethod
    def delete(cls, *, condition: str | None = None) -> MergeClause:
        """Delete rows that are in both."""
        return cls("MATCHED", "DELETE", None, condition)

    @classmethod
    def insert(cls, values: Mapping[str, str] | None = None, *, condition: str | None = None) -> MergeClause:
        """Add rows that are only in the source."""
        return cls("NOT MATCHED", "INSERT", values, condition)

    @classmethod
    def update_unmatched(cls, values: Mapping[str, str], *, condition: str | None = None) -> MergeClause:
        """Change rows that are only in the table."""
        return cls("NOT MATCHED BY SOURCE", "UPDATE", values, condition)

    @classmethod
    def delete_unmatched(cls, *, condition: str | None = None) -> MergeClause:
        """Delete rows that are only in the table."""
        return cls("NOT MATCHED BY SOURCE", "DELETE", None, condition)

    @property
    def sql(self) -> str:
        condition = None if self.condition is None else fragment("the condition of a merge clause", self.condition)
        when = self.when if condition is None else f"{self.when} AND {condition}"
        return f"WHEN {when} THEN {self._action}"

    @property
    def _action(self) -> str:
        if self.then == "DELETE":
            return "DELETE"
        if self.values is None:
            return "UPDATE SET *" if self.then == "UPDATE" else "INSERT *"
        if self.then == "UPDATE":
            return f"UPDATE SET {assignments(self.values)}"
        names = ", ".join(map(quoted, self.values))
        return f"INSERT ({names}) VALUES ({', '.join(_values(self.values).values())})"


def assignments(values: Mapping[str, str]) -> str:
    """What stands behind SET: columns and their new values."""
    return ", ".join(f"{quoted(name)} = {expression}" for name, expression in _values(values).items())


def _values(values: Mapping[str, str]) -> dict[str, str]:
    return {name: new_value(f"the value of {name}", expression) for name, expression in values.items()}
