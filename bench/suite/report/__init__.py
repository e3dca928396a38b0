"""What a run found, for people: `bench.suite.report.page.write` makes it of the records alone."""
