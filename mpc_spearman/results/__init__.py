"""A party's result: its parts, whether they fit each other, its files, its report, and merging several."""
