"""The tables of the Synthesizer paper, compared with our measurements."""
