"""Compile the JAX programs for an H100 on a machine without one."""
