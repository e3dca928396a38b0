"""Views and joins on Spark beside Spark SQL alone."""
