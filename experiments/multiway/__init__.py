"""Driver Input Selection for Main-Memory Multi-way Joins (Valsomatzis, Gounaris), run again."""
