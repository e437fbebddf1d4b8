"""Kill the parent, a host or a child of a run, and judge what is left."""
