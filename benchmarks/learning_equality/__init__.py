"""Whether both frameworks learn and write the same, for every learning task and variant."""
