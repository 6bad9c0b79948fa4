"""The grammar of predicates: what is written comes back, precedence is SQL's, refusals are our own errors."""

from __future__ import annotations

import random
import subprocess
import sys
from decimal import Decimal
from itertools import pairwise

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar.errors import PredicateError, UnknownColumnError
from delta_sidecar.predicates import condition as written
from delta_sidecar.predicates.binding import bind_predicate
from delta_sidecar.predicates.condition import (
    Bare,
    Comparison,
    Condition,
    Likeness,
    Membership,
    Name,
    Negation,
    Nullness,
    Operand,
    Sameness,
    Truth,
)
from delta_sidecar.predicates.evaluation import matching
from delta_sidecar.predicates.literals import Boolean, Bytes, Day, Float, Null, Number, Text
from delta_sidecar.predicates.predicate_sql import parse_sql
from tests.predicates.predicate_tables import ALL_TYPES, PARTITIONS, batch, field, struct

X = Name(("x",))
ONE = Number(Decimal(1), "1")

RESERVED = ("and", "or", "not", "in", "is", "like", "between")
FREE = (
    *("from", "outer", "case", "if", "select", "where", "any", "distinct", "order", "group", "table", "end", "escape"),
    *("date", "timestamp", "timestamp_ntz", "int", "decimal", "interval", "cast", "exists", "isnull", "unknown", "as"),
)


@pytest.mark.parametrize("word", FREE)
def test_any_word_is_a_name(word: str) -> None:
    name = Name((word,))
    assert parse_sql(f"{word} = 1") == Comparison(name, "=", ONE)
    assert parse_sql(f"x < {word} AND {word} IS NULL") == written.All((Comparison(X, "<", name), Nullness(name)))
    assert parse_sql(f"{word}") == Bare(name)
    assert parse_sql(f"x.{word} = 1") == Comparison(Name(("x", word)), "=", ONE)


@pytest.mark.parametrize("word", RESERVED)
def test_reserved_words_are_names_in_quotes_and_after_a_dot(word: str) -> None:
    assert parse_sql(f"`{word}` = 1") == parse_sql(f'"{word}" = 1') == Comparison(Name((word,)), "=", ONE)
    assert parse_sql(f"x.{word} = 1") == Comparison(Name(("x", word)), "=", ONE)
    with pytest.raises(PredicateError, match=f"quote it if it is a column: `{word}`"):
        parse_sql(f"{word} = 1")


@pytest.mark.parametrize(
    ("text", "operand"),
    [
        ("0xff", Bytes(b"\xff")),
        ("x'f'", Bytes(b"\x0f")),
        (".5", Number(Decimal("0.5"), "0.5")),
        ("5.", Number(Decimal(5), "5.")),
        ("1.e3", Number(Decimal(1000), "1.e3")),
        ("- +-1.50", Number(Decimal("1.50"), "1.50")),
        ("-5::decimal(5, 2)", Number(Decimal("-5.00"), "-5.00")),
        ("'5'::int::double", Float(5.0)),
        ("(5)::string", Text("5")),
        ("-NULL", Null()),
        ("DOUBLE PRECISION '5'", Float(5.0)),
        ("TIMESTAMP WITHOUT TIME ZONE '1970-01-02'::date", Day(1)),
        ("DECIMAL(5, 2) '5'", Number(Decimal("5.00"), "5.00")),
        ("CAST(CAST('5' AS INT) AS varchar(3))", Text("5")),
        ("''''", Text("'")),
        ("'a\\'", Text("a\\")),
        ('"a""b".`c``d`', Name(('a"b', "c`d"))),
        ("日本 . é$1", Name(("日本", "é$1"))),
        ("12345678901234567890.5", Number(Decimal("12345678901234567890.5"), "12345678901234567890.5")),
    ],
)
def test_operands(text: str, operand: Operand) -> None:
    assert parse_sql(f"x = {text}") == Comparison(X, "=", operand)
    assert parse_sql(f"{text}<x") == Comparison(operand, "<", X)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("x = 1 IN (2)", "'IN' after a condition"),
        ("(x = 1) = TRUE", "'=' after a condition"),
        ("x = 1 # c", "'#' after '1' is not supported, at character 7"),
        ("not = 1", "quote it if it is a column: `not`"),
        ("x = 1L", "'1L' is not a number"),
        ("x = X'zz'", "not hexadecimal"),
        ("x = -y", "'-'"),
        ("(x = 1", "`)` is missing"),
        ("x = 1)", "')' after '1'"),
        ("x = `a", "unfinished name"),
        ("x = 1 /* /* */", "unfinished comment"),
        ("x = CAST(5 AS DECIMAL(5, 2, 1))", "DECIMAL(5, 2, 1)"),
        ("x = CAST(5 AS DECIMAL(39))", "DECIMAL(39)"),
        ("x = CAST(5 AS nothing)", "'nothing'"),
        ("x = 5::", "ends after '::'"),
        ("x IS 1", "NULL, TRUE, FALSE or DISTINCT FROM must stand"),
        ("x = 1;;", "one condition"),
        ("-- nothing", "empty"),
        ("x = '\ud800'", "not Unicode"),
    ],
)
def test_errors_say_what_and_where(text: str, part: str) -> None:
    with pytest.raises(PredicateError) as caught:
        parse_sql(text)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_errors_in_a_long_text_show_only_the_place() -> None:
    text = " OR ".join(f"x = {i}" for i in range(10_000)) + " OR y ~ 2 OR " + "x = 1 OR " * 1000 + "z"
    with pytest.raises(PredicateError) as caught:
        parse_sql(text)
    assert f"at character {text.index('~') + 1}" in str(caught.value)
    assert "y ~ 2" in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.slow
@pytest.mark.parametrize(("word", "kind"), [("AND", written.All), ("OR", written.Any)])
def test_chains_of_ten_thousand(word: str, kind: type[written.All]) -> None:
    chain = parse_sql(f" {word} ".join(f"x = {i}" for i in range(10_000)))
    assert isinstance(chain, kind)
    assert len(chain.conditions) == 10_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "(" * 5000 + "x" + ")" * 5000,
        "x = " + "(" * 5000 + "1" + ")" * 5000,
        "NOT " * 5000 + "x",
        "!" * 5000 + "x",
        "NOT (" * 5000 + "x" + ")" * 5000,
        "x" + " IS TRUE" * 5000,
        "x = " + "CAST(" * 5000 + "1" + " AS INT)" * 5000,
    ],
    ids=["open", "condition", "operand", "NOT", "!", "NOT (", "IS TRUE", "CAST"],
)
def test_nesting_ends_in_our_error(text: str) -> None:
    with pytest.raises(PredicateError, match="too deeply"):
        parse_sql(text)


def test_nesting_that_a_person_may_write() -> None:
    deep = "x = 1"
    for i in range(90):
        deep = f"({deep}) {'AND' if i % 2 else 'OR'} x = {i}"
    assert parse_sql(deep)
    assert parse_sql("- " * 5000 + "1 = x") == Comparison(ONE, "=", X)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NAMES = st.lists(TEXTS | st.sampled_from([*FREE, *RESERVED, "a", "B", "null", "éa"]), min_size=1, max_size=3).map(
    lambda parts: Name(tuple(parts))
)
NUMBERS = st.from_regex(r"-?[0-9]{1,20}(\.[0-9]{0,20})?([eE][+-]?[0-9]{1,2})?", fullmatch=True).map(
    lambda text: Number(Decimal(text), text)
)
LITERALS = (
    st.builds(Text, TEXTS)
    | NUMBERS
    | st.builds(Bytes, st.binary(max_size=4))
    | st.sampled_from([Null(), Boolean(True), Boolean(False), Day(0), Day(20454), Float(1.5)])
)
OPERANDS: st.SearchStrategy[Operand] = NAMES | LITERALS
ATOMS: st.SearchStrategy[Condition] = (
    st.builds(Comparison, OPERANDS, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), OPERANDS)
    | st.builds(Sameness, OPERANDS, OPERANDS)
    | st.builds(Membership, OPERANDS, st.lists(OPERANDS, min_size=1, max_size=4).map(tuple))
    | st.builds(Likeness, OPERANDS, TEXTS, TEXTS | st.just("\\"))
    | st.builds(Nullness, OPERANDS)
    | st.builds(Bare, OPERANDS)
)


def larger(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    terms = st.lists(inner, min_size=2, max_size=4).map(tuple)
    ranges = st.tuples(OPERANDS, OPERANDS, OPERANDS).map(
        lambda three: written.All((Comparison(three[0], ">=", three[1]), Comparison(three[0], "<=", three[2])))
    )
    # `x IS NULL` of a column is its own node, so no Truth(Bare(…), None).
    unknown = inner.filter(lambda condition: not isinstance(condition, Bare)).map(lambda c: Truth(c, None))
    truths = st.builds(Truth, inner, st.booleans())
    return (
        st.builds(written.All, terms) | st.builds(written.Any, terms) | inner.map(Negation) | ranges | unknown | truths
    )


CONDITIONS = st.recursive(ATOMS, larger, max_leaves=12)


class Writer:
    """Writes conditions as SQL in one of the many ways there are."""

    SPELLINGS: dict[str, list[str]] = {"=": ["=", "=="], "!=": ["!=", "<>"]}  # noqa: RUF012
    GAPS = (" ", "  ", "\n", "\t", "\u00a0", "/* it's */", ' -- "c\n', "/*/* (*/*/")

    def __init__(self, generator: random.Random) -> None:
        self.generator = generator

    def sql(self, condition: Condition) -> str:
        pieces = self.condition(condition, 0)
        text = pieces[0]
        for before, after in pairwise(pieces):
            tight = (before in "(,." or after in "(),.") and self.generator.random() < 0.5
            text += ("" if tight else self.generator.choice(self.GAPS)) + after
        return text

    def word(self, words: str) -> list[str]:
        return [self.generator.choice([str.upper, str.lower, str.title])(word) for word in words.split()]

    def condition(self, condition: Condition, level: int) -> list[str]:
        """`level`: 0 anything, 1 what AND binds, 2 what NOT binds, 3 what IS binds."""
        pieces, own = self.plain(condition)
        if own < level or self.generator.random() < 0.2:
            return ["(", *pieces, ")"]
        return pieces

    def plain(self, condition: Condition) -> tuple[list[str], int]:
        match condition:
            case written.Any(conditions):
                return self.chain("OR", conditions, 1), 0
            case written.All(conditions):
                return self.chain("AND", conditions, 2), 1
            case Negation(inner):
                return self.negation(inner)
            case Truth(inner, value):
                state = self.word("IS") + self.word("NULL" if value is None else str(value))
                return self.condition(inner, 3) + state, 3
            case Bare(operand):
                return self.operand(operand), 3
            case _:
                return self.atom(condition, False), 3

    def chain(self, word: str, conditions: tuple[Condition, ...], level: int) -> list[str]:
        pieces = self.condition(conditions[0], level)
        for condition in conditions[1:]:
            pieces += self.word(word) + self.condition(condition, level)
        return pieces

    def negation(self, inner: Condition) -> tuple[list[str], int]:
        suffix = isinstance(inner, (Sameness, Membership, Likeness, Nullness))
        if suffix and self.generator.random() < 0.5:
            return self.atom(inner, True), 3
        return self.word(self.generator.choice(["NOT", "!"])) + self.condition(inner, 2), 2

    def atom(self, condition: Condition, negative: bool) -> list[str]:
        negation = self.word("NOT") if negative else []
        match condition:
            case Comparison(left, op, right):
                sign = self.generator.choice(self.SPELLINGS.get(op, [op]))
                return [*self.operand(left), sign, *self.operand(right)]
            case Sameness(left, right):
                if not negative and self.generator.random() < 0.5:
                    return [*self.operand(left), "<=>", *self.operand(right)]
                sense = self.word("IS DISTINCT FROM" if negative else "IS NOT DISTINCT FROM")
                return self.operand(left) + sense + self.operand(right)
            case Membership(operand, options):
                listed = [piece for option in options for piece in [",", *self.operand(option)]][1:]
                return [*self.operand(operand), *negation, *self.word("IN"), "(", *listed, ")"]
            case Likeness(operand, pattern, escape):
                tail = [] if escape == "\\" else [*self.word("ESCAPE"), quoted(escape, "'")]
                return [*self.operand(operand), *negation, *self.word("LIKE"), quoted(pattern, "'"), *tail]
            case Nullness(operand):
                return self.operand(operand) + self.word("IS") + negation + self.word("NULL")
        raise AssertionError(condition)

    def operand(self, operand: Operand) -> list[str]:
        pieces = self.value(operand)
        return ["(", *pieces, ")"] if self.generator.random() < 0.1 else pieces

    def value(self, operand: Operand) -> list[str]:
        match operand:
            case Name(parts):
                return [piece for part in parts for piece in [".", self.name(part)]][1:]
            case Text(value):
                return [quoted(value, "'")]
            case Number(_, text):
                return [text]
            case Bytes(value):
                return [f"X'{value.hex()}'"]
            case Day(value):
                return [*self.word("DATE"), "'1970-01-01'" if value == 0 else "'2026-01-01'"]
            case Float(value):
                return [*self.word("CAST"), "(", f"'{value}'", *self.word("AS DOUBLE"), ")"]
            case Boolean(value):
                return self.word(str(value))
        return self.word("NULL")

    def name(self, part: str) -> str:
        plain = part.lower() not in (*RESERVED, "null", "true", "false") and part.isidentifier()
        return part if plain and self.generator.random() < 0.5 else quoted(part, self.generator.choice('"`'))


def quoted(text: str, quote: str) -> str:
    return quote + text.replace(quote, quote * 2) + quote


@pytest.mark.slow
@given(CONDITIONS, st.randoms(use_true_random=False))
def test_what_is_written_is_what_is_parsed(condition: Condition, generator: random.Random) -> None:
    assert parse_sql(Writer(generator).sql(condition)) == condition


SIGNS = """x . , ; ( ) = == != <> < <= > >= <=> + - ! :: 1 .5 1e 'a' "b" `c` X'0' X'z 0xf -- /* */ ' " ` $ ? : [ ] {
    '2026-01-01' 'é' ٣ 99999999999999999999"""
WORDS = """AND OR NOT IN IS LIKE BETWEEN NULL TRUE FALSE UNKNOWN ISNULL NOTNULL DISTINCT FROM ESCAPE SYMMETRIC
    CAST AS INT DECIMAL DATE TIMESTAMP WITH TIME ZONE BINARY DOUBLE STRING BOOLEAN"""
SOUP = st.lists(st.sampled_from([*SIGNS.split(), *WORDS.split(), "\n", "\0"]), max_size=25)


def check_answer(text: str) -> None:
    """An expression or an error of one line, and nothing else."""
    message = ""
    try:
        bind_predicate(text, ALL_TYPES, PARTITIONS)
    except (PredicateError, UnknownColumnError) as error:
        message = str(error)
    assert "\n" not in message


@given(SOUP, st.sampled_from(["", " "]))
def test_token_soup(tokens: list[str], gap: str) -> None:
    check_answer(gap.join(token.replace("x", "long") for token in tokens))


@given(st.binary(max_size=60), st.sampled_from(["latin-1", "utf-8"]))
def test_random_bytes(raw: bytes, encoding: str) -> None:
    check_answer(raw.decode(encoding, "surrogateescape"))


@given(st.text(max_size=60))
def test_random_text(text: str) -> None:
    check_answer(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", ["'", "''", "x'", "/*", "-", "--", "1", "1.", "a.", "(", "x IN (1,", "! ", "é", "\n", "'a\\"]
)
def test_a_long_row_of_one_thing(piece: str) -> None:
    for text in (piece * 10_000, "x = " + piece * 10_000):
        check_answer(text)


PRECEDENCE_SCHEMA = struct(field("i", "long"), field("b", "boolean"), field("c", "boolean"), field("s", "string"))


def unparenthesised(generator: random.Random) -> str:
    """Terms joined by AND and OR, with NOT before and IS after some: only precedence says what it means."""
    pieces = []
    for _ in range(generator.randint(1, 7)):
        atom = generator.choice(
            [
                *(
                    "b",
                    "c",
                    "i = 1",
                    "i <> -1",
                    "i < 0",
                    "1 >= i",
                    "i IN (1, NULL)",
                    "i NOT IN (0, 1)",
                    "TRUE",
                    "b = c",
                ),
                *("i BETWEEN -1 AND 1", "i NOT BETWEEN 0 AND 1", "s LIKE 'a%'", "s NOT LIKE '%b'", "i IS NULL"),
                *("i IS DISTINCT FROM 1", "i IS NOT DISTINCT FROM NULL", "i <= 0"),
            ]
        )
        suffix = generator.choice(["", "", "", " IS TRUE", " IS NOT FALSE", " IS NULL", " IS NOT NULL IS FALSE"])
        pieces += [generator.choice(["", "", "NOT ", "NOT NOT "]) + atom + suffix, generator.choice(["AND", "OR"])]
    return " ".join(pieces[:-1])


@pytest.mark.slow
def test_precedence_is_that_of_duckdb() -> None:
    generator = random.Random(11)
    values = [
        (i, b, c, s) for i in (None, -1, 0, 1) for b in (None, True, False) for c in (None, True) for s in (None, "ab")
    ]
    rows = batch(PRECEDENCE_SCHEMA, [dict(zip("ibcs", row)) for row in values])
    with duckdb.connect() as connection:
        connection.register("rows", pa.Table.from_batches([rows]))
        connection.execute("CREATE TABLE t AS SELECT * FROM rows")
        for _ in range(300):
            text = unparenthesised(generator)
            theirs = [answer for (answer,) in connection.execute(f"SELECT ({text}) FROM t ORDER BY rowid").fetchall()]
            expression = bind_predicate(text, PRECEDENCE_SCHEMA, [])
            assert expression is not None
            assert matching(expression, rows).to_pylist() == theirs, text


def test_parsing_imports_and_says_nothing() -> None:
    program = """
import sys
import delta_sidecar.predicates.binding as predicate
before = set(sys.modules)
predicate.parse_predicate("outer = 1 AND date < DATE '2026-01-01'")
print(sorted(name for name in set(sys.modules) - before if not name.startswith("delta_sidecar.")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
