"""Values parsed from the log's texts: partition values, bounds, dates, decimals, the time bucket; exact or unknown."""
