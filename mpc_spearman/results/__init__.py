"""A party's result: its parts and their consistency, its files, its report, and merging."""
