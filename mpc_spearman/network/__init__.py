"""Links between the parties of a run: everything on the wire goes through this package."""
