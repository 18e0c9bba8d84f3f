"""The predicates that are tested on every column of `values.COLUMNS`."""

from __future__ import annotations

_LITERALS: dict[str, tuple[str, str, str]] = {
    # a value of the column, a greater one, and one that no row has
    "i": ("7", "42", "5"),
    "l": ("-1", "5000000000", "6"),
    "f": ("-1.5", "1.5", "2.25"),
    "d": ("0.1D", "1.5", "2.25"),
    "dec": ("0.01", "1.50", "3.33"),
    "de": ("-1.5000", "1.5000", "2.0001"),
    "dl": ("-1.5", "1.5", "2.25"),
    "s": ("'a'", "'abc'", "'zz'"),
    "bin": ("X'00'", "X'616263'", "X'7F'"),
    "dt": ("DATE '1970-01-01'", "DATE '2024-02-29'", "DATE '2000-01-01'"),
    "ts": (
        "TIMESTAMP '1969-12-31 23:59:59.999999+00:00'",
        "TIMESTAMP '2024-02-29 12:34:56.789012+00:00'",
        "TIMESTAMP '2000-01-01 00:00:00+00:00'",
    ),
    "tn": (
        "TIMESTAMP_NTZ '1969-12-31 23:59:59.999999'",
        "TIMESTAMP_NTZ '2024-02-29 12:34:56.789012'",
        "TIMESTAMP_NTZ '2000-01-01 00:00:00'",
    ),
    "st.a": ("1", "3", "9"),
    "st.t": ("'one'", "'three'", "'two'"),
    "st.deep.x": ("0.0", "1.5", "2.25"),
}
_FORMS = (
    "{c} = {a}",
    "{c} <> {a}",
    "{c} < {b}",
    "{c} <= {a}",
    "{c} > {a}",
    "{c} >= {b}",
    "{c} <=> {a}",
    "{c} <=> NULL",
    "NOT ({c} <=> {b})",
    "{c} IN ({a}, {b}, {z})",
    "{c} NOT IN ({a}, {z})",
    "{c} IN ({b}, NULL)",
    "{c} NOT IN ({b}, NULL)",
    "{c} IS NULL",
    "{c} IS NOT NULL",
    "{c} = {z}",
    "NOT ({c} > {a} AND {c} < {b})",
    "{c} BETWEEN {a} AND {b}",
)
BOOLEAN = (
    "b",
    "NOT b",
    "b = true",
    "b <> true",
    "b <=> false",
    "b IS NULL",
    "b IS NOT NULL",
    "NOT (b = false)",
)
ZEROS = (
    "f = 0.0",
    "f = -0.0",
    "f >= 0.0",
    "f < 0.0",
    "f > 1.5",
    "f > 3E38",
    "f = 0.1",
    "d = 0.0",
    "d = -0.0",
    "d <= -0.0",
    "d > 1.5",
    "d <> 1.5",
    "d > 1E300",
    "NOT (d < 1E308)",
    "d IN (0.0, 1.5)",
    "d NOT IN (-0.0)",
    "d < 1E-320",
)
EXTREMES = (
    "i = 2147483647",
    "i = -2147483648",
    "i < -2147483647",
    "l = 9223372036854775807",
    "l >= 9223372036854775807",
    "l < 5000000000",
    "dec = 9999999.99",
    "dec < -9999999.98",
    "dl > 999999999999999999999",
    "dt = DATE '0001-01-01'",
    "dt > DATE '2024-02-29'",
    "ts < TIMESTAMP '1969-12-31 23:59:59.999999+00:00'",
    "ts > TIMESTAMP '2024-02-29 13:34:56.789012+01:00'",
    "bin = X''",
    "bin > X'00'",
    "bin > X'7F'",
)
STRINGS = (
    "s = ''",
    "s = ' '",
    "s > 'b'",
    "s > '日本'",
    "s >= '\uffff'",
    "s = '😀'",
    "s < '😀'",
    "s LIKE 'a%'",
    "s LIKE '%b'",
    "s LIKE '%a%'",
    "s LIKE 'ab'",
    "s LIKE '%'",
    "s NOT LIKE 'a%'",
    "NOT (s LIKE '%b' OR s IS NULL)",
    "s LIKE 'prefix-xxxxxxxxxxxxxxxxxxxxxxxx%'",
    "s = 'prefix-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'",
    "s <= 'prefix-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'",
    "s > 'prefix-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'",
    "s LIKE '日%'",
    "s LIKE '\uffff%'",
    "s LIKE '%ï%'",
    "startswith(s, 'ab')",
    "endswith(s, 'b')",
    "contains(s, 'a')",
)
MIXED = (
    "i = 7 OR s = 'ab'",
    "i = 7 AND s = 'ab'",
    "(i > 0 AND d > 0.0) OR (s LIKE 'a%' AND b)",
    "NOT (i = 7 OR s = 'ab')",
    "NOT (i > 0 AND (s LIKE 'a%' OR d IS NULL))",
    "st IS NULL",
    "st IS NOT NULL AND st.a IS NULL",
    "st.deep IS NULL OR st.a = 3",
    "ls IS NULL",
    "mp IS NOT NULL",
    "la IS NULL AND i IS NOT NULL",
    "i = st.a",
    "i <=> st.a",
    "i <> st.a",
    "s < st.t",
    "s >= st.t",
    "NOT (s <=> st.t)",
    "d = st.deep.x",
    "d <=> st.deep.x",
    "d < st.deep.x",
    "i IS NULL OR l IS NULL OR s IS NULL",
    "id IN (1, 5, 9, 33, 70, 1000)",
    "id < 10 OR id > 60",
    "id = 1 AND i = 5",
    "true",
    "false",
    "i = 7 OR NULL",
)
SPARK_ONLY = (
    "cast(NULL AS boolean)",
    "s LIKE 'a_'",
    "s LIKE 'a%b'",
    "s LIKE 'a\\\\_b'",
    "upper(s) = 'A'",
    "length(s) > 3 AND i > 0",
    "id + 1 > 70",
    "try_add(i, 1) > 7",
    "l = i",
    "i < l",
    "f = d",
    "d > f",
    "dec = de",
    "dec < d",
    "cast(i AS bigint) = 7",
    "cast(id AS string) = '7' OR id < 3",
    "d = double('NaN')",
    "d > double('NaN')",
    "d <> double('NaN')",
    "d IN (double('NaN'), -0.0D)",
    "d NOT IN (double('NaN'))",
    "d < double('Infinity')",
    "f = float('NaN')",
    "f >= float('Infinity')",
    "isnan(d)",
    "size(ls) > 1",
    "get(ls, 0) = 'a'",
    "element_at(mp, 'k') = 1",
    "array_contains(ls, 'a') AND i IS NOT NULL",
    "ts = tn",
    "dt = ts",
    "year(dt) = 2024",
    "date_trunc('day', ts) = TIMESTAMP '2024-02-29 00:00:00'",
    "b = (i > 0)",
    "coalesce(i, 0) = 0",
    "CASE WHEN i > 0 THEN s = 'a' ELSE b END",
)


# Spark's own pushdown, for any V2 source, fails to print a NULL among binary literals (an assertion in
# ``LiteralValue.toString``), so these are tested on the core alone; so is an untyped NULL.
CORE_ONLY = ("NULL", "bin IN (X'616263', NULL)", "bin NOT IN (X'616263', NULL)")


def for_column(column: str) -> tuple[str, ...]:
    """Return every form of predicate on a column of `values.COLUMNS` (``st.a`` for a field inside a struct)."""
    if column == "b":
        return BOOLEAN
    a, b, z = _LITERALS[column]
    return tuple(form.format(c=column, a=a, b=b, z=z) for form in _FORMS)


def representative_for_column(column: str) -> tuple[str, ...]:
    """Return the forms that reveal most about deletes: each kind of pruning once."""
    if column == "b":
        return BOOLEAN[:3]
    a, b, z = _LITERALS[column]
    forms = ("{c} = {a}", "{c} <> {b}", "{c} > {a}", "{c} IN ({b}, {z})", "{c} IS NULL", "{c} <= {a}")
    return tuple(form.format(c=column, a=a, b=b, z=z) for form in forms)


COLUMNS = ("b", *_LITERALS)
EVERYTHING = tuple(
    dict.fromkeys(
        [text for column in COLUMNS for text in for_column(column)]
        + [*ZEROS, *EXTREMES, *STRINGS, *MIXED, *CORE_ONLY]
    )
)
REPRESENTATIVE = tuple(text for column in COLUMNS for text in representative_for_column(column))
