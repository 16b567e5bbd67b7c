"""The digest of a plan: what a query computes, such that two plans of one digest compute the same.

Spark writes a plan as JSON. That quotes and types each literal, and says by an id which column is
meant. Two things are done to it:

- what differs between two plans of one query is taken out: ids are numbered through, and the names
  of columns, tables and views go. (What a column of a leaf is called, the leaf's schema tells.)
- what the JSON leaves out is asked of the plan itself: whether a cast fails or gives null, say.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from watersmeet.spark.jvm.plans import LogicalPlan, PlanNode

#: What gives something else each time, or something that a plan does not tell, by its class.
_UNKNOWN = re.compile(r".*UDF.*|Current(?!Row).*|LocalTimestamp.*|Now|.*Python.*|.*Lambda.*")
#: Nodes that only name what is below them.
_NAMING = ("SubqueryAlias", "View")
#: Expressions whose name says nothing that their id does not.
_BY_ID = ("Alias", "AttributeReference", "NamedLambdaVariable")
#: Fields that say how something was found, and not what it is.
_ASIDE = ("qualifier", "catalogTable")
#: Values that the JSON has as the plan does.
_PLAIN = re.compile(r"boolean|byte|short|integer|long|float|double|string|date|timestamp|decimal.*")
#: How Scala writes any function.
_FUNCTION = "<function"


class PlanDigest:
    """The digest of a plan. ``text`` is what its JSON says of it."""

    def __init__(self, plan: LogicalPlan) -> None:
        self._plan = plan
        self._ids: dict[tuple[int, str], int] = {}
        self._classes: Counter[str] = Counter()
        #: The fields that the JSON leaves out, by the class that has them.
        self._left_out: dict[str, set[str]] = {}
        self.text = json.dumps(self._plain(json.loads(plan.json)))

    def in_full(self) -> str | None:
        """All that is to be known of a plan whose leaves are files; None if it cannot be told, or
        does not always give the same."""
        simple = {name.rpartition(".")[2] for name in self._classes}
        if not self._plan.is_deterministic or any(map(_UNKNOWN.fullmatch, simple)):
            return None
        asked = {name: sorted(fields) for name, fields in self._left_out.items()}
        answers = [*self._answers(asked)] if asked else []
        if len(answers) != sum(self._classes[name] for name in asked):
            return None  # a node is where it was not looked for
        return None if _FUNCTION in str(answers) else json.dumps([self.text, answers])

    def _plain(self, value: object) -> object:
        """A value of the JSON, without what differs between two plans of one query."""
        if isinstance(value, list):
            return [self._plain(each) for each in value if _class(each) not in _NAMING]
        if not isinstance(value, dict):
            return value
        if str(value.get("product-class")).endswith(".ExprId"):
            return self._ids.setdefault((value["id"], value["jvmId"]), len(self._ids))
        name = _class(value)
        if name is not None:
            value = self._noted(name, value)
        aside = (*_ASIDE, "name") if name in _BY_ID else _ASIDE
        return {key: self._plain(each) for key, each in value.items() if key not in aside}

    def _noted(self, name: str, node: dict[str, Any]) -> dict[str, Any]:
        """A node; what the JSON leaves out of it is noted."""
        self._classes[node["class"]] += 1
        missing = {key for key, each in node.items() if each is None}
        if name == "LogicalRelation":
            missing = set()  # of files; they are told elsewhere
        elif name == "Literal":
            plain = _PLAIN.fullmatch(str(node["dataType"])) is not None
            missing = set() if plain else {"sql"}  # others are written for the eye
            node = node if plain else {**node, "value": None}
        if missing:
            self._left_out.setdefault(node["class"], set()).update(missing)
        return node

    def _answers(self, asked: dict[str, list[str]]) -> Iterator[list[str]]:
        """What the JSON leaves out, node by node."""
        for node in _nodes(self._plan):
            name = node.class_name
            if name in asked:
                yield [node.field(field) for field in asked[name]]


def _class(node: object) -> str | None:
    """The simple name of the class of a node; None if it is not one."""
    if not isinstance(node, dict) or "class" not in node:
        return None
    return str(node["class"]).rpartition(".")[2]


def _nodes(plan: LogicalPlan) -> Iterator[PlanNode]:
    """The nodes of a plan and of its expressions, and those of its subqueries."""
    for one in (plan, *plan.subqueries):
        for node in one.tree():
            yield node
            for expression in node.expressions:
                yield from expression.tree()
