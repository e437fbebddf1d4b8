"""Benchmarks of the harness itself, and micro-benchmarks of the mixers; CI runs none of them."""
