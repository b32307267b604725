"""A party's result: its parts, its files, its report, and the merging of several."""
