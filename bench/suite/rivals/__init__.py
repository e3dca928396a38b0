"""Other ways to keep an answer up to date, one a file; `bench.suite.registry` names them."""
