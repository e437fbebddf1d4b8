"""Try every branch that needs a GPU, in ten minutes: which ran, which was correct, with figures."""
