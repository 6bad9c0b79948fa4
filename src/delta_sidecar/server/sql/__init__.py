"""Flight SQL: SELECT over the tables of the roots, and what ADBC and JDBC ask about them."""
