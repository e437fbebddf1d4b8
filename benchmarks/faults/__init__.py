"""Wrong inputs, kills and bad conditions: nothing may break a run, or a command, or a record."""
