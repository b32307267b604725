"""From a party's table to its ranks."""
