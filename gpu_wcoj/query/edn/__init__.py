"""Queries in EDN, as in Datomic and DataScript, and a reader of EDN."""

from gpu_wcoj.query.edn.ast import Attribute, Datoms, Relation
from gpu_wcoj.query.edn.compile import Query, Read, parse
from gpu_wcoj.query.edn.reader import Form, Symbol, read, to_python

__all__ = ["Attribute", "Datoms", "Form", "Query", "Read", "Relation", "Symbol", "parse", "to_python", "read"]
