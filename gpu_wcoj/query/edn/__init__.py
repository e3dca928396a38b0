"""Queries in EDN, as in Datomic and DataScript, and a reader of EDN."""

from gpu_wcoj.query.edn.answer import Query
from gpu_wcoj.query.edn.compile import Read
from gpu_wcoj.query.edn.compiled import parse
from gpu_wcoj.query.edn.forms import Form, Symbol, to_python
from gpu_wcoj.query.edn.reader import read
from gpu_wcoj.query.edn.sources import Attribute, Datoms, Relation

__all__ = ["Attribute", "Datoms", "Form", "Query", "Read", "Relation", "Symbol", "parse", "to_python", "read"]
