"""Functions of texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import polars as pl
from pyspark.sql import types as T

from watersmeet.spark.sql import semantics
from watersmeet.spark.sql.analysis import fail
from watersmeet.spark.sql.nodes import Handler, Node, of, operand_type
from watersmeet.spark.sql.regexes import java_to_rust, plain_text

if TYPE_CHECKING:
    from watersmeet.spark.sql.translation import Translation


def _text(function: Callable[..., pl.Expr]) -> Handler:
    """A function of texts; Spark has it for binary values and arrays too."""

    def handler(t: Translation, node: Node) -> pl.Expr:
        kind = operand_type(node)
        if not isinstance(kind, T.StringType):
            t.refuse(node, f"{node.prettyName()} of {kind.simpleString()}")
        return function(*t.children(node))

    return handler


def _trim(strip: Callable[[pl.Expr, str], pl.Expr]) -> Handler:
    def handler(t: Translation, node: Node) -> pl.Expr:
        given = node.trimStr()
        characters = t.constant(given.get()).toString() if given.isDefined() else " "
        return strip(t(node.srcStr()), characters)

    return handler


def _like(t: Translation, node: Node) -> pl.Expr:
    pattern = t.constant(node.right()).toString()
    try:
        regex = semantics.like_to_regex(pattern, node.escapeChar())
    except ValueError as error:
        fail(t.condition.sql, f"{node.sql()}: {error}", "Double it to mean itself.")
    return t(node.left()).str.contains(regex)


def _rlike(t: Translation, node: Node) -> pl.Expr:
    pattern = t.constant(node.right()).toString()
    regex = java_to_rust(pattern)
    if regex is None:
        known = r"of characters, sets, groups, . \d \w \s | * + ? {2,3}, a first ^ and a last $"
        t.refuse(node, f"a regular expression other than one {known}")
    return t(node.left()).str.contains(regex)


def split(t: Translation, node: Node) -> pl.Expr:
    """The parts of a text: a list, so only a part of it is a value by itself."""
    separator = plain_text(t.constant(node.regex()).toString())
    if separator is None:
        t.refuse(node, "split by a pattern that is not a plain text")
    if t.constant(node.limit()) > 0:
        t.refuse(node, "split with a limit")
    return t(node.str()).str.split(separator)


HANDLERS: dict[str, Handler] = {
    "Lower": of(lambda a: a.str.to_lowercase()),
    "Upper": of(lambda a: a.str.to_uppercase()),
    "Length": _text(lambda a: a.str.len_chars().cast(pl.Int32)),
    "Concat": _text(lambda *values: pl.concat_str(*values)),
    "Substring": _text(semantics.substring),
    "StringTrim": _trim(lambda text, characters: text.str.strip_chars(characters)),
    "StringTrimLeft": _trim(lambda text, characters: text.str.strip_chars_start(characters)),
    "StringTrimRight": _trim(lambda text, characters: text.str.strip_chars_end(characters)),
    "StartsWith": _text(lambda a, b: a.str.starts_with(b)),
    "EndsWith": _text(lambda a, b: a.str.ends_with(b)),
    "Contains": _text(lambda a, b: a.str.contains(b, literal=True)),
    "Like": _like,
    "RLike": _rlike,
}
