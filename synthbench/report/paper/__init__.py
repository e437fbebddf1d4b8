"""The Synthesizer paper's tables, ours beside theirs."""
